"""A cluster as a client sees it: its nodes, requests to them, and retries.

Every call names its node. `Cluster.retrying` retries errors that are retriable, and
looks up a leader or coordinator that has moved before the next attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import Any, Self, TypeVar

from kohort.client.config import CommonConfig, parse_address
from kohort.client.errors import (
    ClosedError,
    ConnectionFailedError,
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    KohortError,
    LeaderNotAvailableError,
    NotControllerError,
    NotCoordinatorError,
    NotLeaderError,
    RequestTimedOutError,
    UnknownTopicError,
)
from kohort.client.network.api_versions import Versions
from kohort.client.network.connection import Connection
from kohort.client.network.coordinators import GROUP, TRANSACTION, Coordinators
from kohort.client.network.metadata import (
    NO_NODE,
    NOTHING,
    Metadata,
    Node,
    lacks_a_leader,
    read,
)
from kohort.client.network.reconnecting import (
    Backoff,
    Link,
    reluctance,
    retrieve,
    shared,
)
from kohort.client.network.sockets import Connect, connect
from kohort.protocol.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.errors import ErrorCode

T = TypeVar("T")

CLOSE_MS = 5_000
"""Default time limit of `close`, for written bytes."""

_ANSWERED_BY_METADATA = (
    FencedLeaderEpochError,
    LeaderNotAvailableError,
    NotControllerError,
    NotLeaderError,
    UnknownTopicError,
)


class Cluster:
    """Connections to a cluster's nodes, and their metadata.

        async with Cluster(config) as cluster:
            await cluster.call(None, "ListGroups", ListGroupsRequest())

    Args:
        config: bootstrap servers, security and settings of connections.
        clock: the time in seconds; by default the event loop's.
        random: source of jitter, of the order of brokers, and of a member's id.
        sleep: waits for some seconds.
        connect: connects a protocol to a host; see `sockets.connect`.
        allow_auto_topic_creation: whether asking for a topic may create it.

    Attributes:
        config: as above.
        clock: as above.
        random: as above.
        metadata: the newest.
        listeners: called with all new metadata.
    """

    def __init__(
        self,
        config: CommonConfig,
        *,
        clock: Callable[[], float] | None = None,
        random: Random | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        connect: Connect = connect,
        allow_auto_topic_creation: bool = False,
    ) -> None:
        self.config = config
        self.clock = asyncio.get_running_loop().time if clock is None else clock
        self.metadata: Metadata = NOTHING
        self.listeners: list[Callable[[Metadata], None]] = []
        self.random = Random() if random is None else random
        self._sleep = sleep
        self._connect = connect
        self._creates_topics = allow_auto_topic_creation
        self._authenticate = config.authenticate
        if config.sasl_mechanism is not None:
            # Most clients do not authenticate, and cryptography is slow to load.
            from kohort.client.network.sasl.authenticator import authenticator

            self._authenticate = authenticator(
                config, config.sasl_mechanism, self.clock
            )
        self._reconnect = Backoff(
            config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, self.random
        )
        self._retry = Backoff(
            config.retry_backoff_ms, config.retry_backoff_max_ms, self.random
        )
        self._unreachable: set[tuple[str, int]] = set()
        addresses = dict.fromkeys(map(parse_address, config.bootstrap_servers))
        self._bootstrap = [self._link(host, port, None) for host, port in addresses]
        self._links: dict[tuple[int, str], Link] = {}
        self._coordinators = Coordinators(self._any_connection)
        self._topics: set[str] | None = set()
        self._is_stale = asyncio.Event()
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshing_next: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_closed = False

    def _link(self, host: str, port: int, node_id: int | None) -> Link:
        return Link(
            self.config,
            host,
            port,
            node_id,
            self._authenticate,
            self._reconnect,
            self.clock,
            self._sleep,
            self._connect,
            self._unreachable,
        )

    # -- start and close

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, timeout_ms: int | None = None) -> None:
        """Finds the cluster: tries the bootstrap servers until one responds.

        Args:
            timeout_ms: None for ``default.api.timeout.ms``.

        Raises:
            KohortError: no server responded, or one with an error that is not
                retriable. All connections are closed.
        """
        try:
            servers = ", ".join(link.name for link in self._bootstrap)
            await self.retrying(
                self.deadline(timeout_ms), self.refresh, api="Metadata", broker=servers
            )
        except BaseException:
            await self.close(0)
            raise
        if self._is_closed:
            raise ClosedError("the client was closed")
        self._keeper = asyncio.create_task(self._keep_fresh())

    async def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Ends all connections; pending requests fail with `ClosedError`.

        Returns within the time, even if a broker does not read.
        """
        self._is_closed = True
        tasks = [self._keeper, self._refreshing, self._refreshing_next]
        under_way: list[asyncio.Future[Any]] = [t for t in tasks if t is not None]
        for task in under_way:
            task.cancel()
        links = [*self._bootstrap, *self._links.values()]
        for link in links:
            link.close()
        under_way += [asyncio.ensure_future(link.wait_closed()) for link in links]
        try:
            await asyncio.wait(under_way, timeout=timeout_ms / 1000)
        finally:
            for link in links:
                link.abort()
            for each in under_way:
                each.cancel()

    # -- calls

    def deadline(self, timeout_ms: int | None = None) -> float:
        """The time on `clock` in `timeout_ms` milliseconds.

        None stands for ``default.api.timeout.ms``.
        """
        if timeout_ms is None:
            timeout_ms = self.config.default_api_timeout_ms
        return self.clock() + timeout_ms / 1000

    async def call(
        self,
        node_id: int | None,
        api_name: str,
        message: object,
        *,
        versions: Versions | None = None,
        timeout_ms: int | None = None,
        lane: str = "",
    ) -> Any:
        """Sends one request to a node, and returns its response.

        Does not retry, and does not raise errors in the response. If the node is
        unreachable, the coordinators of its groups are looked up the next time.

        Args:
            node_id: the node to ask; None for any node.
            api_name: Kafka's name, as in ``JoinGroup``.
            message: the request.
            versions: (lowest, highest) to use; None for all.
            timeout_ms: for the response; None for ``request.timeout.ms``.
            lane: requests of one lane share a connection, on which a broker answers
                one after the other: requests that wait long have a separate one.

        Raises:
            ConnectionFailedError: the node is unknown or unreachable, or the
                connection ended meanwhile.
            RequestTimedOutError: no response in time.
            UnsupportedVersionError: the node supports none of the versions.
            ClosedError: the client was closed.
        """
        try:
            connection = await self.connection(node_id, lane)
            version = connection.version(api_name, versions)
            return await connection.send(
                api_name, version, message, timeout_ms=timeout_ms
            )
        except (ConnectionFailedError, RequestTimedOutError) as error:
            error.api = error.api or api_name
            self.request_update()
            self._coordinators.forget_node(node_id)
            raise

    async def retrying(
        self, deadline: float, attempt: Callable[[], Awaitable[T]], **where: Any
    ) -> T:
        """Retries a call until it succeeds, time is up, or an error is not retriable.

        Between attempts it waits, twice as long each time up to
        ``retry.backoff.max.ms``, and refreshes metadata or coordinators that are out
        of date according to the error.

        Args:
            deadline: on `clock`.
            attempt: the call.
            where: attributes of `KohortError` for the last error, if it has none.

        Raises:
            RequestTimedOutError: it timed out; its cause is the last error.
            KohortError: an error of the call that is not retriable.
        """
        failures = 0
        last: KohortError | None = None
        try:
            async with asyncio.timeout(max(0.0, deadline - self.clock())):
                while True:
                    try:
                        return await attempt()
                    except KohortError as error:
                        if not error.retriable or self._is_closed:
                            raise
                        last = error
                    failures += 1
                    self.note(last)
                    await self.back_off(failures)
        except TimeoutError:
            late = RequestTimedOutError.after(last)
            late.fill(**where)
            raise late from last

    async def back_off(self, failures: int, limit_s: float = math.inf) -> None:
        """Waits before another attempt, and refreshes metadata if necessary.

        Args:
            failures: how many attempts in a row have failed.
            limit_s: the longest wait.
        """
        await self._sleep(min(self._retry.seconds(failures), limit_s))
        with contextlib.suppress(KohortError):
            if self._is_stale.is_set():
                await self.refresh()
            elif self._refreshing is not None:  # another task was faster
                await shared(self._refreshing)

    def note(self, error: KohortError) -> None:
        """Takes note of an error that shows a moved leader or coordinator."""
        if isinstance(error, _ANSWERED_BY_METADATA):
            self.request_update()
        elif isinstance(error, NotCoordinatorError | CoordinatorNotAvailableError):
            if error.group is not None:
                self.forget_coordinator(error.group)
            if error.transactional_id is not None:
                self._coordinators.forget(error.transactional_id, TRANSACTION)

    # -- connections

    async def connection(self, node_id: int | None, lane: str = "") -> Connection:
        """The connection to a node; opens one if necessary.

        Raises:
            ConnectionFailedError: the node is unknown or unreachable.
            ClosedError: the client was closed.
        """
        if self._is_closed:
            raise ClosedError("the client was closed")
        if node_id is None:
            return await self._any_connection()
        link = self._links.get((node_id, lane))
        if link is not None:
            current = link.current
            if current is not None:
                return current
        return await (await self._link_to(node_id, lane)).connection()

    async def reach(self, node_id: int) -> Connection:
        """As `connection`; an unreachable coordinator is looked up the next time."""
        try:
            return await self.connection(node_id)
        except ConnectionFailedError:
            self.request_update()
            self._coordinators.forget_node(node_id)
            raise

    def connection_at_hand(self, group: str, lane: str) -> Connection | None:
        """An open connection to a group's coordinator that can send at once, if any."""
        node_id = self._coordinators.get(group)
        if node_id is None or self._is_closed:
            return None
        link = self._links.get((node_id, lane))
        return None if link is None else link.at_hand()

    async def _link_to(self, node_id: int, lane: str) -> Link:
        node = self.node(node_id)
        if node is None:
            await self.refresh()
            node = self.node(node_id)
        if node is None:
            raise ConnectionFailedError(
                "the node is not in the metadata", broker=f"node {node_id}"
            )
        return self._link_of(node, lane)

    def _link_of(self, node: Node, lane: str) -> Link:
        key = (node.node_id, lane)
        if key not in self._links:
            self._links[key] = self._link(node.host, node.port, node.node_id)
        link = self._links[key]
        link.host, link.port = node.host, node.port
        return link

    def node(self, node_id: int) -> Node | None:
        """A node; None if it is unknown."""
        return self.metadata.nodes.get(node_id) or self._coordinators.nodes.get(node_id)

    def name_of(self, node_id: int) -> str:
        """A node's name in errors: "host:port (node 1)"."""
        node = self.node(node_id)
        return f"node {node_id}" if node is None else str(node)

    async def _any_connection(self) -> Connection:
        failed: KohortError | None = None
        for link in self._candidates():
            try:
                return await link.connection()
            except KohortError as error:
                if not error.retriable:
                    raise
                failed = error
        assert failed is not None
        raise failed

    def _candidates(self) -> list[Link]:
        """Nodes for requests that any node can answer, best first.

        Connected nodes with few requests come first, then nodes without a back-off.
        Bootstrap servers come last, in case all nodes have moved.
        """
        known = [self._link_of(node, "") for node in self.metadata.nodes.values()]
        self.random.shuffle(known)
        bootstrap = self.random.sample(self._bootstrap, len(self._bootstrap))
        return [*sorted(known, key=reluctance), *sorted(bootstrap, key=reluctance)]

    # -- metadata

    async def watch(self, topics: Iterable[str] | None) -> None:
        """Replaces the topics of the metadata; None for all topics.

        Raises:
            KohortError: as `refresh`.
        """
        self._topics = None if topics is None else set(topics)
        await self.refresh()

    async def add_topics(self, topics: Iterable[str]) -> None:
        """Adds topics to the metadata; refreshes it if one of them is unknown.

        Raises:
            KohortError: as `refresh`.
        """
        if self._topics is not None:
            wanted = set(topics)
            is_known = wanted <= self._topics and wanted <= self.metadata.topics.keys()
            self._topics |= wanted
            if not is_known:
                await self.refresh()

    def want_topics(self, topics: Iterable[str]) -> None:
        """As `add_topics`, without waiting."""
        if self._topics is not None and not self._topics.issuperset(topics):
            self._topics |= set(topics)
            self.request_update()

    def request_update(self) -> None:
        """Fetches the metadata soon."""
        self._is_stale.set()

    async def refresh(self) -> None:
        """Fetches the metadata, with a request that is sent after this call.

        Tries each broker once.

        Raises:
            KohortError: no broker responded, or one with an error.
        """
        if self._is_closed:
            raise ClosedError("the client was closed")
        if self._refreshing_next is None:
            # One at a time; callers meanwhile share the next one.
            task = asyncio.create_task(self._refresh_after(self._refreshing))
            task.add_done_callback(retrieve)
            self._refreshing_next = task
        await shared(self._refreshing_next)

    async def _refresh_after(self, previous: asyncio.Task[None] | None) -> None:
        if previous is not None and not previous.done():
            await asyncio.wait([previous])
        self._refreshing, self._refreshing_next = self._refreshing_next, None
        self._is_stale.clear()
        try:
            await self._fetch_metadata()
        except BaseException:
            self._is_stale.set()
            raise

    async def _fetch_metadata(self) -> None:
        failed: KohortError | None = None
        for link in self._candidates():
            try:
                response = await self._metadata_of(await link.connection())
            except KohortError as error:
                if not error.retriable:
                    raise
                failed = error
                continue
            metadata = read(response, self.clock(), self.metadata)
            self._adopt_bootstrap(metadata)
            if any(map(lacks_a_leader, metadata.topics.values())):
                self.request_update()
            self.update_metadata(metadata)
            return
        assert failed is not None
        failed.api = failed.api or "Metadata"
        raise failed

    async def _metadata_of(self, connection: Connection) -> Any:
        version = connection.version("Metadata")
        topics = (
            None  # all; version 1 has that, and so has every broker with ApiVersions
        )
        if self._topics is not None:
            topics = [MetadataRequestTopic(name=t) for t in sorted(self._topics)]
        request = MetadataRequest(topics, self._creates_topics)
        response = await connection.send("Metadata", version, request)
        if response.error_code:
            if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                self._rebootstrap()
                raise ConnectionFailedError(
                    "the broker belongs to another cluster",
                    api="Metadata",
                    broker=connection.name,
                    code=ErrorCode.REBOOTSTRAP_REQUIRED,
                )
            raise connection.error_of(response.error_code, "Metadata")
        if not response.brokers:
            # A broker that has just started does not know any broker, not even itself.
            raise ConnectionFailedError(
                "the broker knows no brokers yet",
                api="Metadata",
                broker=connection.name,
            )
        return response

    def update_metadata(self, metadata: Metadata) -> None:
        """Sets newer metadata, and calls the listeners."""
        self.metadata = metadata
        for listener in list(self.listeners):
            try:
                listener(self.metadata)
            except Exception as error:  # noqa: BLE001 - the metadata stays valid
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a metadata listener failed", "exception": error}
                )

    def _adopt_bootstrap(self, metadata: Metadata) -> None:
        """Reuses the connection to a bootstrap server for its node."""
        for node in metadata.nodes.values():
            for number, link in enumerate(self._bootstrap):
                is_it = (link.host, link.port) == (node.host, node.port)
                key = (node.node_id, "")
                if is_it and link.current is not None and key not in self._links:
                    link.is_now_known_as(node.node_id)
                    self._links[key] = link
                    self._bootstrap[number] = self._link(link.host, link.port, None)

    def _rebootstrap(self) -> None:
        """Forgets all nodes: a broker belongs to another cluster (KIP-1102)."""
        for link in self._links.values():
            link.drop()
        self._coordinators.clear()
        self.metadata = NOTHING

    async def _keep_fresh(self) -> None:
        """Fetches the metadata on request, and when it is too old."""
        failures = 0
        while True:
            # A pause between fetches, even if requests are frequent.
            await self._sleep(self._retry.seconds(max(1, failures)))
            age = self.clock() - self.metadata.fetched_at
            left = self.config.metadata_max_age_ms / 1000 - age
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, left)):
                    await self._is_stale.wait()
            try:
                await self.refresh()
            except ClosedError:
                return
            except KohortError:
                failures += 1
            else:
                failures = failures + 1 if self._is_stale.is_set() else 0

    # -- coordinators and leaders

    async def coordinator(self, group: str) -> int:
        """The id of a group's coordinator; looks it up if necessary.

        Raises:
            CoordinatorNotAvailableError: the group has none at the moment.
            KohortError: the look-up failed.
        """
        return await self._coordinator(group, GROUP)

    async def transaction_coordinator(self, transactional_id: str) -> int:
        """The id of a producer's coordinator; looks it up if necessary.

        Raises:
            CoordinatorNotAvailableError: the producer has none at the moment.
            KohortError: the look-up failed.
        """
        return await self._coordinator(transactional_id, TRANSACTION)

    async def _coordinator(self, key: str, kind: int) -> int:
        known = self._coordinators.get(key, kind)
        if known is not None:
            return known
        found = (await self._coordinators.find([key], kind))[key]
        if isinstance(found, KohortError):
            raise found
        return found

    async def coordinators(
        self, keys: Sequence[str], kind: int = GROUP
    ) -> dict[str, int | KohortError]:
        """The coordinator of each group, or the error of its look-up.

        Args:
            keys: group ids, or transactional ids.
            kind: `GROUP` or `TRANSACTION`.

        Raises:
            KohortError: no broker responds.
        """
        return await self._coordinators.find(keys, kind)

    def forget_coordinator(self, group: str) -> None:
        """Forgets a group's coordinator; the next call looks it up."""
        self._coordinators.forget(group)

    def leader(self, topic: str, partition: int) -> int | None:
        """The node id of a partition's leader; None if it is unknown."""
        found = self.metadata.leader(topic, partition)
        return None if found == NO_NODE else found
