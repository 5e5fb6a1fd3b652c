"""The plan: a broker's rules, in order, and the strikes of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from kohort.broker import telemetry
from kohort.broker.clock import Timer
from kohort.broker.cluster.cluster import Cluster, Node
from kohort.broker.connection import Connection
from kohort.broker.events.bus import Events
from kohort.broker.faults.facts import Facts
from kohort.broker.faults.functions import Function, Intercepted, Strike, strike_of
from kohort.broker.faults.link import Link
from kohort.broker.faults.requests import Requests
from kohort.broker.faults.rule import (
    SEED,
    SELECTORS,
    FaultError,
    Rule,
    UnknownFaultError,
)
from kohort.broker.notice import Client, Notice, Who
from kohort.broker.request import Request
from kohort.protocol.errors import ErrorCode

DECISION: Final = "decision"
"""The request is not handled as usual."""
DELAY: Final = "delay"
THROTTLE: Final = "throttle"
ANSWER: Final = "answer"
"""The response is not sent as usual."""
MOST_MEMBERS: Final = 1000
"""Members and groups searched for the one that a strike concerns, 0.1 ms; on a broker
with more, it is unknown unless the request names it."""
MOST_KEPT: Final = 1000
"""Responses, one per API and client, that a rule keeps to repeat them."""
MOST_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the responses that all rules keep."""
_ANSWER_EFFECTS: Final = frozenset({"corrupt", "truncate", "trickle_ms"})

log = telemetry.Logger("faults")

Struck = dict[str, Rule]
"""The rules that struck a request, by their kind: at most one of each kind."""


def kind_of(rule: Rule) -> str:
    """The kind of a rule's effect: rules of different kinds strike together."""
    effect = rule.effect
    if effect == "delay_ms":
        return DELAY
    if effect == "throttle_ms":
        return THROTTLE
    if effect in _ANSWER_EFFECTS or rule.disconnect == "after":
        return ANSWER
    return DECISION


def is_silent(rule: Rule) -> bool:
    """Returns whether a request that it strikes gets no response."""
    return rule.swallow is not None or rule.disconnect == "before"


def chance(*parts: object) -> float:
    """A number from 0 to below 1, always the same for the same parts."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    # As many bits as a float has, so that the greatest number is not rounded up to 1.
    return (int.from_bytes(digest[:7], "big") >> 3) / 2**53


class Faults:
    """The faults of a broker: ``broker.faults``.

        broker.faults.fail("OffsetCommit", "NOT_COORDINATOR", times=2, group="billing")
        broker.faults.delay("JoinGroup", seconds=2, client_id="billing-1")

    Use it on the broker's loop, before or after the start. Keywords of the methods are
    the keys of a `Rule`. Of the rules with effects of one kind, the first one that
    matches and triggers strikes a request; the kinds are decisions (error, stale,
    swallow, duplicate, disconnect before), delays, throttle times, and changes of the
    response (disconnect after, corrupt, truncate, trickle).

    Args:
        seed: the seed of probabilities, jitter and corruption.

    Attributes:
        seed: see above. Set it before adding rules.
        requests: the recorder of requests.
        is_active: whether connections have to ask for faults.
        reads_topics: whether a rule selects by topic or partition.
        links: the connections with state.
        kept_bytes: bytes of the responses that rules with ``stale`` may repeat.
        changed: called when rules come or go; the broker sets it.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.requests = Requests(self._update)
        self.is_active = False
        self.reads_topics = False
        self.links: dict[Connection, Link] = {}
        self.changed: Callable[[], object] = lambda: None
        self._rules: dict[int, Rule] = {}
        self._functions: dict[int, Function] = {}
        self._errors: list[Exception] = []
        self._last_id = 0
        self._timers: dict[int, Timer] = {}
        self._by_kind: dict[str, list[Rule]] = {}
        self._black_holes: list[Rule] = []
        self._jitters: list[Rule] = []
        # Stale responses, without correlation ids, by rule and by sort of request.
        self._answers: dict[int, dict[tuple[object, ...], bytes]] = {}
        self.kept_bytes = 0
        self._cluster: Cluster
        self._events: Events
        self._is_bound = False
        # Seconds that each response waits: ``response.delay.ms``.
        self.response_delay = 0.0

    # -- rules

    @property
    def rules(self) -> list[Rule]:
        """The rules, in the order in which they were added."""
        return [*self._rules.values()]

    def get(self, fault_id: int) -> Rule:
        """Returns a rule by its id.

        Raises:
            UnknownFaultError: no rule has this id; the message lists the rules.
        """
        rule = self._rules.get(fault_id)
        if rule is None:
            some = ", ".join(f"{each.id} ({each.label})" for each in self.rules)
            there_are = f"the faults are: {some}" if some else "there are no faults"
            raise UnknownFaultError(f"there is no fault {fault_id}; {there_are}")
        return rule

    def add(self, rule: Rule | Mapping[str, Any]) -> Rule:
        """Adds a rule: a `Rule`, or its keys.

        Returns:
            The rule, with its id.

        Raises:
            FaultError: the keys are not a valid rule, or the rule was added before.
        """
        if not isinstance(rule, Rule):
            rule = Rule.from_dict(rule)
        if rule.id:
            raise FaultError(f"id: the rule has been added before, as {rule.id}")
        self._last_id += 1
        rule.id = self._last_id
        self._rules[rule.id] = rule
        if self._is_bound:
            self._start(rule)
        self._update()
        return rule

    def remove(self, fault_id: int) -> Rule:
        """Removes a rule; responses that it delays are sent now.

        Raises:
            UnknownFaultError: no rule has this id.
        """
        rule = self.get(fault_id)
        self._forget(rule)
        self._update()
        return rule

    def clear(self) -> None:
        """Removes all rules and functions."""
        self._functions.clear()
        for rule in self.rules:
            self._forget(rule)
        self._update()

    def load(self, path: str | Path) -> list[Rule]:
        """Adds the rules of a TOML file, and takes its seed; see `load_plan`."""
        seed, rules = load_plan(path)
        if seed is not None:
            self.seed = seed
        return [self.add(rule) for rule in rules]

    def _forget(self, rule: Rule) -> None:
        del self._rules[rule.id]
        self._forget_answers(rule)
        timer = self._timers.pop(rule.id, None)
        if timer is not None:
            timer.cancel()
        # Connections may be waiting for it.
        rule.is_over = True

    # -- rules by effect

    def fail(self, /, api: str | Sequence[str], error: str, **keys: Any) -> Rule:
        """Answers with an error at once; the request has no effect."""
        return self.add({"api": api, "error": error, **keys})

    def delay(
        self, /, api: str | Sequence[str] | None = None, *, seconds: float, **keys: Any
    ) -> Rule:
        """Delays responses; later requests of the connection wait behind them."""
        return self._add(api, {"delay_ms": seconds * 1000, **keys})

    def disconnect(
        self,
        /,
        api: str | Sequence[str] | None = None,
        when: str = "before",
        **keys: Any,
    ) -> Rule:
        """Closes connections, before or after the request has taken effect."""
        return self._add(api, {"disconnect": when, **keys})

    def swallow(self, /, api: str | Sequence[str] | None = None, **keys: Any) -> Rule:
        """Drops requests: no effect and no response, as if Kafka never answered them.

        Later requests of the connection wait until the client closes it, even after the
        rule is removed. Produce with acks 0 is dropped, and delays nothing.
        """
        return self._add(api, {"swallow": True, **keys})

    def throttle(
        self, /, api: str | Sequence[str] | None = None, *, seconds: float, **keys: Any
    ) -> Rule:
        """Answers with a throttle time, and holds the connection back (KIP-219)."""
        return self._add(api, {"throttle_ms": round(seconds * 1000), **keys})

    def duplicate(self, /, api: str | Sequence[str] | None = None, **keys: Any) -> Rule:
        """Handles requests twice; the client gets the second response."""
        return self._add(api, {"duplicate": True, **keys})

    def stale(self, /, api: str | Sequence[str] | None = None, **keys: Any) -> Rule:
        """Repeats the last response to the same client; the request has no effect."""
        return self._add(api, {"stale": True, **keys})

    def corrupt(self, /, api: str | Sequence[str] | None = None, **keys: Any) -> Rule:
        """Changes bytes of responses."""
        return self._add(api, {"corrupt": True, **keys})

    def truncate(self, /, api: str | Sequence[str] | None = None, **keys: Any) -> Rule:
        """Sends half of a response, and closes the connection."""
        return self._add(api, {"truncate": True, **keys})

    def trickle(
        self, /, api: str | Sequence[str] | None = None, *, seconds: float, **keys: Any
    ) -> Rule:
        """Sends responses byte by byte, with a pause after each byte."""
        return self._add(api, {"trickle_ms": seconds * 1000, **keys})

    def black_hole(self, /, **keys: Any) -> Rule:
        """Neither reads nor answers; connections stay open."""
        return self.add({"black_hole": True, **keys})

    def jitter(self, /, seed: int, up_to_ms: float, **keys: Any) -> Rule:
        """Delays requests and responses at random, on some connections more."""
        return self.add({"jitter_ms": up_to_ms, "seed": seed, **keys})

    # -- functions

    def on(
        self, /, api: str | Sequence[str], function: Callable[[Intercepted], object]
    ) -> Function:
        """Calls a function with each request of an API, or of several.

        It is called on the broker's loop, before any rule, and must not block. If it
        raises, the request gets UNKNOWN_SERVER_ERROR, and the end of the broker's
        ``with`` block, or of the test, raises the error.

        Args:
            api: the name of the API, or a list of names.
            function: takes the request, and may decide about it; see `Intercepted`.

        Returns:
            The function in the plan, for `off`.

        Raises:
            FaultError: there is no such API.
        """
        names = cast("tuple[str, ...]", SELECTORS["api"].check("api", api))
        self._last_id += 1
        found = Function(self._last_id, names, function)
        self._functions[found.id] = found
        self._update()
        return found

    def off(self, function: Function) -> None:
        """Removes a function.

        Raises:
            UnknownFaultError: it was removed before.
        """
        if self._functions.pop(function.id, None) is None:
            raise UnknownFaultError(f"{function} was removed before")
        self._update()

    @property
    def functions(self) -> list[Function]:
        """The functions, in the order in which they were added."""
        return [*self._functions.values()]

    def intercept(self, facts: Facts) -> Intercepted | None:
        """Calls the functions of a request's API, until one of them decides."""
        api = facts.request.api.name
        for each in self.functions:
            if api not in each.api:
                continue
            each.calls += 1
            asked = Intercepted(facts, each)
            try:
                each.function(asked)
            except Exception as error:  # noqa: BLE001 - any error of the user's code
                self.function_failed(error)
                asked = Intercepted(facts, each)
                asked.fail(ErrorCode.UNKNOWN_SERVER_ERROR.name)
            if not asked.passes:
                for strike in asked.strikes:
                    self._publish(strike, facts)
                return asked
        return None

    def function_failed(self, error: Exception) -> None:
        """Logs an error of a function, and keeps it for `raise_errors`."""
        log.error("fault_function_failed", exc_info=error)
        self._errors.append(error)

    def raise_errors(self) -> None:
        """Raises the errors of functions.

        Raises:
            ExceptionGroup: there are some.
        """
        errors, self._errors = self._errors, []
        if errors:
            raise ExceptionGroup("functions given to `on` have failed", errors)

    def _add(self, api: str | Sequence[str] | None, keys: Mapping[str, Any]) -> Rule:
        return self.add(keys if api is None else {"api": api, **keys})

    # -- time

    def bind(self, cluster: Cluster, events: Events) -> None:
        """Takes the clock and the events of a broker that starts."""
        self._cluster = cluster
        self._events = events
        self._is_bound = True
        self.response_delay = cluster.config["response.delay.ms"] / 1000
        for rule in self._rules.values():
            if rule.id in self._timers:
                # The broker was started before.
                self._timers[rule.id].cancel()
            self._start(rule)
        self._update()

    def now(self) -> float:
        """The clock of all faults: clients wait by their own."""
        return self._cluster.client_clock.now()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Calls `callback` after this time."""
        return self._cluster.client_clock.call_at(self.now() + seconds, callback)

    def _start(self, rule: Rule) -> None:
        if rule.for_seconds is not None and not rule.is_over:
            self._timers[rule.id] = self.call_later(
                rule.for_seconds, lambda: self._end(rule)
            )

    def _end(self, rule: Rule) -> None:
        rule.is_over = True
        self._forget_answers(rule)
        del self._timers[rule.id]
        self._update()

    def _update(self) -> None:
        """Sorts the rules and notifies the connections, after a change."""
        rules = [rule for rule in self._rules.values() if not rule.is_over]
        self._by_kind = {}
        self._black_holes = [rule for rule in rules if rule.black_hole]
        self._jitters = [rule for rule in rules if rule.jitter_ms]
        for rule in rules:
            if not rule.black_hole and not rule.jitter_ms:
                self._by_kind.setdefault(kind_of(rule), []).append(rule)
        self.reads_topics = any(
            rule.topic is not None or rule.partition is not None for rule in rules
        )
        self.is_active = bool(
            rules or self._functions or self.requests.is_on or self.response_delay
        )
        self.changed()

    # -- strikes

    def strike(self, facts: Facts) -> Struck:
        """Returns the rules that strike a request now; counts and publishes them."""
        struck: Struck = {}
        for kind in (DECISION, DELAY, THROTTLE, ANSWER):
            for rule in self._by_kind.get(kind, ()):
                if _selects(rule, facts) and self._triggers(rule, facts):
                    struck[kind] = rule
                    self._publish(strike_of(rule), facts)
                    break
            if kind == DECISION and kind in struck and is_silent(struck[kind]):
                break
        return struck

    def _triggers(self, rule: Rule, facts: Facts) -> bool:
        rule.matches += 1
        if rule.nth is not None:
            strikes = rule.matches == rule.nth
        elif rule.every is not None:
            strikes = rule.matches % rule.every == 0
        elif rule.probability is not None:
            strikes = chance(self._seed(rule), rule.id, rule.matches) < rule.probability
        else:
            strikes = rule.strikes < (1 if rule.once else rule.times or 2**63)
        if rule.stale:
            facts.keepers.append(rule)
            strikes &= _sort_of(facts.request) in self._answers.get(rule.id, {})
        rule.strikes += strikes
        return strikes

    def _seed(self, rule: Rule) -> int:
        return self.seed if rule.seed is None else rule.seed

    # -- rules for whole connections

    def black_hole_for(self, connection: Connection, client_id: str) -> Rule | None:
        """The rule that silences a connection now."""
        return self._for_connection(self._black_holes, connection, client_id)

    def is_cut_off(self, connection: Connection) -> bool:
        """Returns whether a connection is in a black hole, by its latest request."""
        client_id = connection.client.id
        return any(
            _selects_connection(rule, connection, client_id)
            for rule in self._black_holes
        )

    def jitter_for(
        self, connection: Connection, client_id: str
    ) -> tuple[Rule, float] | None:
        """The rule that delays a connection's bytes, and the seconds of the next delay.

        Each connection has its own scale, and takes its delays in order.
        """
        if not self._jitters:
            return None
        rule = self._for_connection(self._jitters, connection, client_id)
        if rule is None:
            return None
        link, seed = self.link(connection), self._seed(rule)
        link.jitters += 1
        # Squared: a few connections are slow, most are not.
        scale = chance(seed, connection.number) ** 2
        part = scale * chance(seed, connection.number, link.jitters)
        return rule, part * (rule.jitter_ms or 0) / 1000

    def _for_connection(
        self, rules: Sequence[Rule], connection: Connection, client_id: str
    ) -> Rule | None:
        for rule in rules:
            if _selects_connection(rule, connection, client_id):
                if rule.id not in self.link(connection).struck_by:
                    self.link(connection).struck_by.add(rule.id)
                    rule.matches += 1
                    rule.strikes += 1
                    self._publish_connection(rule, connection, client_id)
                return rule
        return None

    @property
    def gates(self) -> bool:
        """Returns whether requests may have to wait before they are handled."""
        return bool(self._black_holes or self._jitters)

    def link(self, connection: Connection) -> Link:
        """Returns the state of a connection, creating it if necessary."""
        found = self.links.get(connection)
        if found is None:
            found = self.links[connection] = Link()
        return found

    # -- stale responses

    def keep(self, rules: Iterable[Rule], request: Request, answer: bytes) -> None:
        """Keeps a response, without its head, for the rules that will repeat it."""
        sort = _sort_of(request)
        for rule in rules:
            if rule.is_over:
                continue
            kept = self._answers.setdefault(rule.id, {})
            more = len(answer) - len(kept.pop(sort, b""))
            self.kept_bytes += more
            kept[sort] = answer
            if len(kept) > MOST_KEPT or self.kept_bytes > MOST_KEPT_BYTES:
                self.kept_bytes -= len(kept.pop(sort))

    def _forget_answers(self, rule: Rule) -> None:
        self.kept_bytes -= sum(map(len, self._answers.pop(rule.id, {}).values()))

    def kept(self, rule: Rule, request: Request) -> bytes:
        """The last response to the same client, of the same API and version."""
        return self._answers[rule.id][_sort_of(request)]

    # -- events

    def _publish(self, strike: Strike, facts: Facts) -> None:
        request, client = facts.request, facts.request.client
        who = Who(facts.member_id, facts.instance_id, client)
        api = request.api.name
        if facts.groups:
            self._tell(strike, request.node, facts.group, who, api)
        else:
            self._tell(strike, request.node, *self._membership(client), api)

    def _publish_connection(
        self, rule: Rule, connection: Connection, client_id: str
    ) -> None:
        client = connection.client._replace(id=client_id)
        found = self._membership(client)
        self._tell(strike_of(rule), connection.node, *found, None)

    def _membership(self, client: Client) -> tuple[str | None, Who]:
        """The group and the member of a client, by its id and host.

        Consumers have other connections for records than for their group. If several
        clients look the same, the member is unknown; so is the group, if theirs differ.
        """
        found = []
        looked_at = 0
        for group in self._cluster.shards.groups():
            looked_at += 1 + len(group.members)
            if looked_at > MOST_MEMBERS:
                return None, Who(None, None, client)
            found += [
                (group.group_id, member)
                for member in group.members.values()
                if member.client[:2] == client[:2]
            ]
        group_id = found[0][0] if len({row[0] for row in found}) == 1 else None
        if len(found) != 1:
            return group_id, Who(None, None, client)
        member = found[0][1]
        return group_id, Who(member.member_id, member.group_instance_id, client)

    def _tell(
        self,
        strike: Strike,
        node: Node,
        group_id: str | None,
        who: Who,
        api: str | None,
    ) -> None:
        fields = {**strike._asdict(), "api": api}
        notice = Notice("fault_struck", group_id, None, who, fields)
        self._events.of(node.id).publish(notice, self._cluster.clock.now())


def _sort_of(request: Request) -> tuple[object, ...]:
    return request.client.id, request.api.key, request.version


def _selects_connection(rule: Rule, connection: Connection, client_id: str) -> bool:
    return (
        (rule.client_id is None or rule.client_id == client_id)
        and (rule.software is None or rule.software == connection.software_name)
        and (rule.connection is None or rule.connection == connection.number)
        and (rule.node is None or rule.node == connection.node.id)
    )


def _selects(rule: Rule, facts: Facts) -> bool:
    """Returns whether a rule selects a request."""
    request = facts.request
    api, version, peer = request.api.name, request.version, request.peer
    if rule.api is not None and api not in rule.api:
        return False
    if rule.version is not None and rule.version != version:
        return False
    if rule.client_id is not None and rule.client_id != request.client.id:
        return False
    if rule.software is not None and rule.software != peer.software_name:
        return False
    if rule.connection is not None and rule.connection != request.client.connection:
        return False
    if rule.node is not None and rule.node != request.node.id:
        return False
    return _selects_content(rule, facts)


def _selects_content(rule: Rule, facts: Facts) -> bool:
    if rule.group is not None and rule.group not in facts.groups:
        return False
    transactional_id = rule.transactional_id
    if transactional_id is not None and transactional_id not in facts.transactional_ids:
        return False
    if rule.member_id is not None and rule.member_id not in facts.member_ids:
        return False
    if rule.instance_id is not None and rule.instance_id not in facts.instance_ids:
        return False
    if rule.topic is not None or rule.partition is not None:
        names = facts.topics if rule.topic is None else (rule.topic,)
        if rule.partition is not None:
            found = (facts.topics.get(name, ()) for name in names)
            if not any(rule.partition in partitions for partitions in found):
                return False
        elif rule.topic not in facts.topics and not facts.has_all_topics:
            return False
    return rule.state is None or rule.state in facts.states()


def load_plan(path: str | Path) -> tuple[int | None, list[Rule]]:
    """Reads a plan: ``seed = 1``, and a table ``[[fault]]`` for each rule.

    Returns:
        The seed, None if it has none; and the rules.

    Raises:
        FaultError: the file cannot be read, or is not a valid plan; the message names
            the file, the number of the table, and the key.
    """
    import tomllib

    path = Path(path)
    try:
        plan = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FaultError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise FaultError(f"{path}: no TOML: {error}") from None
    try:
        return parse_plan(plan)
    except FaultError as error:
        raise FaultError(f"{path}: {error}") from None


def parse_plan(plan: Mapping[str, Any]) -> tuple[int | None, list[Rule]]:
    """Reads a plan from a mapping; see `load_plan`."""
    for key in plan:
        if key not in {"seed", "fault"}:
            raise FaultError(f"{key}: a plan has the keys seed and fault")
    seed, tables = plan.get("seed"), plan.get("fault", [])
    if seed is not None:
        SEED.check("seed", seed)
    if not isinstance(tables, list):
        raise FaultError("fault: write [[fault]], in double brackets")
    rules = []
    for number, table in enumerate(tables, 1):
        if not isinstance(table, Mapping):
            raise FaultError("fault: write [[fault]], in double brackets")
        try:
            rules.append(Rule.from_dict(table))
        except FaultError as error:
            raise FaultError(f"fault {number}: {error}") from None
    return seed, rules
