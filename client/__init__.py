"""The asyncio client: consumer, producer and admin, for kohort and for Apache Kafka.

What applications use stands here; the errors are in `kohort.client.errors`.
"""

from kohort.client.admin import Admin
from kohort.client.admin_values import NewTopic
from kohort.client.config import AdminConfig, ConsumerConfig, ProducerConfig
from kohort.client.consumed import ConsumerRecord
from kohort.client.consumer import Consumer
from kohort.client.errors import GroupMaxSizeReachedError, KohortError
from kohort.client.listener import ConsumerGroupMetadata, ConsumerRebalanceListener
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
