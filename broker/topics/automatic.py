"""Settings of topics that are created automatically, as in Kafka."""

from __future__ import annotations

from kohort.broker.config import Config
from kohort.broker.topics.settings import (
    offsets_topic_overrides,
    transactions_topic_overrides,
)
from kohort.broker.topics.topic import EVENTS_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC


def automatic(
    config: Config, name: str, nodes: int
) -> tuple[int, int, dict[str, str] | None]:
    """Returns the settings of a topic.

    Args:
        config: the broker's configuration.
        name: the topic's name.
        nodes: the number of nodes. Kafka waits for as many brokers as the factor of an
            internal topic; a kohort cluster does not grow, so the number limits it.

    Returns:
        Number of partitions, replication factor, own configuration.
    """
    if name == OFFSETS_TOPIC:
        factor = min(config["offsets.topic.replication.factor"], nodes)
        count = config["offsets.topic.num.partitions"]
        return count, factor, offsets_topic_overrides(config)
    if name == TRANSACTIONS_TOPIC:
        factor = min(config["transaction.state.log.replication.factor"], nodes)
        count = config["transaction.state.log.num.partitions"]
        return count, factor, transactions_topic_overrides(config, factor)
    if name == EVENTS_TOPIC:
        # One partition, so that consumers read events in order.
        return 1, nodes, None
    return (
        config["num.partitions"],
        min(config["default.replication.factor"], nodes),
        None,
    )
