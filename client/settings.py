"""The settings as typed keywords: mypy and pyright find wrong names and types.

`kohort.client.config` has the same settings, with defaults and checks; a test holds the
two together. Each class is a TypedDict, so settings can also be prepared in a variable:

    settings: ConsumerSettings = {"group_id": "billing", "session_timeout_ms": 15_000}
    consumer = Consumer("orders", **settings)
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypedDict

from kohort.client.config import (
    Acks,
    CompressionType,
    GroupProtocol,
    IsolationLevel,
    OffsetReset,
    SecurityProtocol,
)
from kohort.client.errors import KohortError
from kohort.client.offsets import RecordMetadata
from kohort.client.security import Authenticate, SaslMechanism, TokenProvider

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:  # before Python 3.13 a TypeVar has no default
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")


class CommonSettings(TypedDict, total=False):
    """Settings of all clients; see `kohort.client.config.CommonConfig`."""

    bootstrap_servers: Sequence[str]
    client_id: str
    security_protocol: SecurityProtocol
    ssl_context: ssl.SSLContext | None
    sasl_mechanism: SaslMechanism | None
    sasl_username: str | None
    sasl_password: str | None
    sasl_oauth_token_provider: TokenProvider | None
    authenticate: Authenticate | None
    request_timeout_ms: int
    default_api_timeout_ms: int
    connections_max_idle_ms: int
    socket_connection_setup_timeout_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int


class ConsumerSettings(CommonSettings, Generic[K, V], total=False):
    """Settings of a consumer of keys K and values V, see `ConsumerConfig`."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: GroupProtocol
    group_remote_assignor: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    partition_assignment_strategy: Sequence[str]
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    auto_offset_reset: OffsetReset
    isolation_level: IsolationLevel
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    client_rack: str
    allow_auto_create_topics: bool
    exclude_internal_topics: bool
    key_deserializer: Callable[[bytes], K] | None
    value_deserializer: Callable[[bytes], V] | None
    on_received: Callable[[Any], object] | None


class ProducerSettings(CommonSettings, Generic[K, V], total=False):
    """Settings of a producer of keys K and values V, see `ProducerConfig`."""

    acks: Acks
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: int
    linger_ms: int
    batch_size: int
    buffer_memory: int
    compression_type: CompressionType
    compression_level: int | None
    max_request_size: int
    max_in_flight_requests_per_connection: int
    retries: int
    delivery_timeout_ms: int
    max_block_ms: int
    partitioner_ignore_keys: bool
    partitioner: Callable[..., int] | None
    key_serializer: Callable[[K], bytes] | None
    value_serializer: Callable[[V], bytes] | None
    on_sent: Callable[[RecordMetadata | None, KohortError | None], object] | None


class AdminSettings(CommonSettings, total=False):
    """Settings of an admin client; see `AdminConfig`."""
