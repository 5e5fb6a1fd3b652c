"""The asyncio client: consumer, producer and admin, for kohort and for Apache Kafka.

Applications import from here; the errors are in `kohort.client.errors`. Inside:

    consumer.py producer.py admin.py    the clients; config.py has their settings
    group/             the member's side of the group protocol: pure but for driver.py
    assignors/         how the leader assigns partitions
    consuming/         records, positions, listeners; commits.py: refused commits
    producing/         batches, their numbers and delivery
    administering/     the calls of the admin client
    network/           connections, metadata, coordinators, retries

Back-pressure: `consuming/fetcher.py` limits prefetched bytes, `Producer.send`
waits for memory, and `network/connection.py` waits for a broker that does not read.
"""

from kohort.client.admin import Admin
from kohort.client.administering.values import NewTopic
from kohort.client.config import AdminConfig, ConsumerConfig, ProducerConfig
from kohort.client.consumer import Consumer
from kohort.client.consuming.chunks import ConsumerRecord
from kohort.client.consuming.consumer_group import (
    ConsumerGroupMetadata,
    ConsumerRebalanceListener,
)
from kohort.client.errors import GroupMaxSizeReachedError, KohortError
from kohort.client.offsets import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kohort.client.producer import Producer, RecordMetadata

__all__ = [
    "Admin",
    "AdminConfig",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "GroupMaxSizeReachedError",
    "KohortError",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "ProducerConfig",
    "RecordMetadata",
    "TopicPartition",
]
