"""Changes of topics without a client."""

from __future__ import annotations

from kohort.broker.long_work import Pace, finish
from kohort.broker.server import Broker


def delete_topic(broker: Broker, name: str) -> None:
    """Deletes a topic, and groups' committed offsets for it, in one turn."""
    cluster = broker.cluster
    finish(cluster.delete_topics([cluster.topics.by_name[name]], Pace()))
