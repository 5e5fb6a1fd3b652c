"""The fixture `kohort`: a broker of one test, and power over its groups."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from kohort.broker.server import Broker
from kohort.testing import topics
from kohort.testing.clock import Clock
from kohort.testing.faults import Faults
from kohort.testing.group import Group
from kohort.testing.marker import TEST_CONFIG
from kohort.testing.processes import Process
from kohort.testing.thread import BrokerThread
from kohort.testing.topics import Record, Records, Topic
from kohort.testing.transaction import Transaction
from kohort.testing.waiting import Handle, Waits

if TYPE_CHECKING:
    from kohort.broker.events.delivery import Delivery
    from kohort.broker.faults.requests import Recorded
    from kohort.control.http.server import Control
    from kohort.testing.member import ScriptedMember

P = ParamSpec("P")
T = TypeVar("T")


class NodeChange(Handle):
    """A change of nodes: a stop, a start, or another cluster in their place."""


def _change(
    method: Callable[Concatenate[Broker, P], Coroutine[Any, Any, object]],
) -> Callable[Concatenate[Kohort, P], NodeChange]:
    """A method that waits for one of the broker."""

    @functools.wraps(method)
    def change(self: Kohort, /, *args: P.args, **kwargs: P.kwargs) -> NodeChange:
        __tracebackhide__ = True
        given = ", ".join(map(repr, [*args, *kwargs.values()]))
        work = method(self.broker, *args, **kwargs)
        words = f"kohort.{method.__name__}({given})"
        return self._waits.begin(NodeChange(), work, words)

    return change


class Kohort:
    """A Kafka broker with the verbs of a test.

    It runs in a separate thread, so that async and blocking tests use it alike. The
    fixture stops it when the test ends; elsewhere `close` does, or the end of a block:

        with Kohort() as kohort:
            kohort.topic("orders", partitions=6)

    Args:
        broker: the broker, not started yet, or one of a ``with`` block, which runs on
            after `close`. None: as of the fixture in a test without a marker.

    Attributes:
        bootstrap_servers: "host:port" of each node, for clients.
        clock: moves the broker's time.
        faults: the rules by which the broker errs. Its methods that add a rule by its
            effect (`fail`, `delay`, `disconnect`, ...) are methods of this class, too.
        processes: the programs that the test has started.
    """

    def __init__(self, broker: Broker | None = None) -> None:
        if broker is None:
            broker = Broker(TEST_CONFIG, watch_fetches=True)
        self._thread = BrokerThread(broker)
        self._thread.start()
        self._thread.call(self._record)
        self._waits = Waits(self._thread)
        self._control: Control | None = None
        self.bootstrap_servers = broker.bootstrap_servers
        self.clock = Clock(self._thread, self._waits)
        self.faults = faults = Faults(self._thread)
        self.on = faults.on
        self.fail = faults.fail
        self.delay = faults.delay
        self.disconnect = faults.disconnect
        self.swallow = faults.swallow
        self.throttle = faults.throttle
        self.duplicate = faults.duplicate
        self.stale = faults.stale
        self.corrupt = faults.corrupt
        self.truncate = faults.truncate
        self.trickle = faults.trickle
        self.black_hole = faults.black_hole
        self.jitter = faults.jitter
        self.processes: list[Process] = []
        self._members: list[ScriptedMember] = []

    def __repr__(self) -> str:
        """Its addresses."""
        return f"<Kohort at {self.bootstrap_servers}>"

    def _record(self) -> None:
        # The first use of the recorder binds it to the broker's loop.
        self.broker.requests.record()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def broker(self) -> Broker:
        """The broker itself; only functions given to `call` may use it."""
        return self._thread.broker

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function in the broker's thread, and returns its result.

        A way to everything that a broker in the same event loop offers:

            kohort.call(kohort.broker.move_partition, "orders", 0, 2)
        """
        return self._thread.call(function, *args, **kwargs)

    # -- topics

    def topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        records: Records = (),
        config: Mapping[str, object] | None = None,
    ) -> Topic:
        """Creates a topic.

        Args:
            name: its name.
            partitions: the number of partitions; None for the marker's.
            records: records to begin with; see `Topic.produce`.
            config: the topic's own configuration.

        Raises:
            TopicError: the name is illegal or taken, or a record is refused.
            ConfigError: an unknown key in `config`, or an invalid value.
        """
        topic = topics.create(self._thread, name, partitions, config)
        topic.produce(records)
        return topic

    def records(self, topic: str, *, committed: bool = False) -> list[Record]:
        """All records of a topic, by partition and offset.

        Args:
            topic: its name.
            committed: True for those that a ``read_committed`` consumer gets; False:
                also those of aborted and open transactions.

        Raises:
            TopicError: the topic is unknown; lists those that exist.
        """
        return Topic(self._thread, topic).records(committed=committed)

    # -- groups and nodes

    def group(self, group_id: str) -> Group:
        """A handle of a group, which need not exist yet."""
        return Group(self._thread, self._waits, group_id)

    def transaction(self, transactional_id: str) -> Transaction:
        """A handle of a transactional id, which need not exist yet."""
        return Transaction(self._thread, self._waits, transactional_id)

    def member(
        self,
        group_id: str,
        *,
        client_id: str = "scripted",
        instance_id: str | None = None,
        topics: Sequence[str] = (),
        protocols: Sequence[str] | Mapping[str, bytes] = ("range",),
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        version: int | None = None,
    ) -> ScriptedMember:
        """A scripted member of a group: it sends only the requests of the test.

        Args:
            group_id: the group.
            client_id: its client.id.
            instance_id: its group.instance.id; None for a dynamic member.
            topics: the topics that it subscribes to.
            protocols: names of assignors, the best first, or metadata by name.
            session_timeout_ms: in JoinGroup; Kafka's default.
            rebalance_timeout_ms: in JoinGroup; the default max.poll.interval.ms.
            version: of JoinGroup; None for the newest.
        """
        # It loads the client, which takes as long as all else together.
        from kohort.testing.member import ScriptedMember

        member = ScriptedMember(
            self._thread,
            self._waits,
            group_id,
            client_id=client_id,
            instance_id=instance_id,
            topics=topics,
            protocols=protocols,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            version=version,
        )
        self._members.append(member)
        return member

    stop_node = _change(Broker.stop_node)
    start_node = _change(Broker.start_node)
    restart_node = _change(Broker.restart_node)
    replace = _change(Broker.replace)

    def requests(self, api: str | None = None, **filters: object) -> list[Recorded]:
        """The requests that the broker has handled, the oldest first.

        Args:
            api: Kafka's name of the API, as "JoinGroup"; None for all.
            filters: fields of a row and their values, as ``client_id="billing-1"``.

        Raises:
            TypeError: a row has no field of that name.
            FaultError: there is no API, or no error, of that name.
        """
        return self._thread.call(self.broker.requests.find, api, **filters)

    # -- programs

    def process(
        self,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        http: bool = False,
    ) -> Process:
        """Starts a program; it and its children are killed when the test ends.

        Its environment has KAFKA_BOOTSTRAP_SERVERS. The end of its stderr is in the
        report of a test that fails.

        Args:
            arguments: the command.
            env: further variables of its environment.
            cwd: the directory it runs in; None for that of the test.
            http: whether to open the HTTP port, and to set KOHORT_HTTP.

        Raises:
            OSError: the program cannot be started.
        """
        environment = {"KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers}
        if http:
            environment["KOHORT_HTTP"] = self.http
        process = Process(self._waits, arguments, {**environment, **(env or {})}, cwd)
        self.processes.append(process)
        return process

    @property
    def http(self) -> str:
        """The URL of the broker's HTTP port, which the first use opens."""
        if self._control is None:
            from kohort.control.http.server import Control

            control = Control(self.broker)
            self._thread.submit(control.start()).result()
            self._control = control
        return self._control.url

    # -- the end of the test

    def events(self) -> list[Mapping[str, Any]]:
        """The events that the broker remembers: see `kohort.broker.events.schema`."""
        seen = self._thread.read(self.broker.events.seen)
        return [each.event for each in seen]

    def deliveries(self) -> list[Delivery]:
        """The accounts of delivery of all groups, as of now, by group id."""
        return self._thread.read(self._deliveries)

    def _deliveries(self) -> list[Delivery]:
        accounting = self.broker.events.accounting
        if accounting is None:
            return []
        accounting.settle()
        return [accounting.delivery(g) for g in sorted(accounting.deliveries.groups)]

    def misses(self) -> list[str]:
        """A line about each fault that has struck nothing."""
        return self._thread.read(self._misses)

    def _misses(self) -> list[str]:
        from kohort.broker.faults.misses import miss

        topics = self.broker.cluster.topics.by_name
        rules = [rule for rule in self.broker.faults.rules if not rule.strikes]
        missed = [miss(rule, self.broker.requests.find(), topics) for rule in rules]
        functions = self.broker.faults.functions
        return missed + [f"{each}" for each in functions if not each.calls]

    def close(self) -> None:
        """Kills the processes, and stops the broker; the fixture calls it.

        Raises:
            BaseExceptionGroup: errors in its thread that no client has seen; those of
                functions that were given to `on`.
        """
        try:
            for process in self.processes:
                process.kill()
            for member in self._members:
                member.disconnect()
            if self._control is not None:
                self._thread.submit(self._control.stop()).result()
        finally:
            self._thread.stop()
        self._thread.raise_faults()

    def forgotten(self) -> list[str]:
        """The calls that an async test has not awaited, in words."""
        return self._waits.forgotten()
