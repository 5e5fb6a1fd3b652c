"""The asyncio client: consumer, producer and admin, for kohort and for Apache Kafka.

Applications import from here; the errors are in `kohort.client.errors`. Inside:

    consumer.py producer.py admin.py    the clients; config.py has their settings
    group/             the member's side of the group protocol: pure but for driver.py
    assignors/         how the leader assigns partitions
    consuming/         records, positions, listeners; commits.py: refused commits
    producing/         batches, their numbers and delivery
    transactions/      a transactional producer's state: pure but for driver.py
    administering/     the calls of the admin client
    network/           connections, metadata, coordinators, retries

Back-pressure: `consuming/fetcher.py` limits prefetched bytes, `Producer.send`
waits for memory, and `network/connection.py` waits for a broker that does not read.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kohort.client.admin import Admin
    from kohort.client.administering.values import NewTopic
    from kohort.client.config import AdminConfig, ConsumerConfig, ProducerConfig
    from kohort.client.consumer import Consumer
    from kohort.client.consuming.chunks import ConsumerRecord
    from kohort.client.consuming.consumer_group import (
        ConsumerGroupMetadata,
        ConsumerRebalanceListener,
    )
    from kohort.client.consuming.subscription import SubscriptionPattern
    from kohort.client.errors import GroupMaxSizeReachedError, KohortError
    from kohort.client.offsets import (
        OffsetAndMetadata,
        OffsetAndTimestamp,
        RecordMetadata,
        TopicPartition,
    )
    from kohort.client.producer import Producer
    from kohort.client.security import OAuthToken
    from kohort.client.settings import AdminSettings, ConsumerSettings, ProducerSettings

__all__ = [
    "Admin",
    "AdminConfig",
    "AdminSettings",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerSettings",
    "GroupMaxSizeReachedError",
    "KohortError",
    "NewTopic",
    "OAuthToken",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "ProducerConfig",
    "ProducerSettings",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
]

_MODULES: Final = {
    "Admin": "admin",
    "AdminConfig": "config",
    "AdminSettings": "settings",
    "Consumer": "consumer",
    "ConsumerConfig": "config",
    "ConsumerGroupMetadata": "consuming.consumer_group",
    "ConsumerRebalanceListener": "consuming.consumer_group",
    "ConsumerRecord": "consuming.chunks",
    "ConsumerSettings": "settings",
    "GroupMaxSizeReachedError": "errors",
    "KohortError": "errors",
    "NewTopic": "administering.values",
    "OAuthToken": "security",
    "OffsetAndMetadata": "offsets",
    "OffsetAndTimestamp": "offsets",
    "Producer": "producer",
    "ProducerConfig": "config",
    "ProducerSettings": "settings",
    "RecordMetadata": "offsets",
    "SubscriptionPattern": "consuming.subscription",
    "TopicPartition": "offsets",
}
"""The module of each name. It is loaded when the name is first used, so that a consumer
does not load the producer and the admin client."""


if not TYPE_CHECKING:  # a wrong name is an error to type checkers

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(f"kohort.client.{_MODULES[name]}")
        found = globals()[name] = getattr(module, name)
        return found


def __dir__() -> list[str]:
    return __all__
