"""Connections under a plan of faults: rules apply before handling and answering.

While there are rules the broker's connections are of the class `FaultyConnection`.

1. `_handle_frames`: a black hole keeps frames from being handled; jitter delays them.
2. `_handle` finds a `FaultyRoute`. When the request is decoded, in pieces if it is
   long, its `handle` asks the plan which rules strike, and applies them.
3. The request is then a `FaultyRequest`, whose response gets its throttle time, and is
   recorded.
4. `send`: the response waits, is changed, or is not sent.

While a response waits, its request counts as being handled. So later requests of the
connection wait behind it, as with a slow broker, and back-pressure works as usual. A
swallowed request counts as being handled until the connection closes.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Generator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, ClassVar, Final, cast

from kohort.broker.api_counts import errors_in, name_of
from kohort.broker.clock import ns
from kohort.broker.connection import Connection
from kohort.broker.dispatch import ROUTES, Route, Routes
from kohort.broker.faults.answers import error_answer
from kohort.broker.faults.facts import Facts
from kohort.broker.faults.functions import Change
from kohort.broker.faults.link import Link
from kohort.broker.faults.plan import (
    ANSWER,
    DECISION,
    DELAY,
    THROTTLE,
    Faults,
    chance,
    kind_of,
)
from kohort.broker.faults.requests import Recorded
from kohort.broker.faults.rows import Errors, has_rows, is_of_rows, split
from kohort.broker.faults.rule import Rule
from kohort.broker.long_work import Work
from kohort.broker.request import Request
from kohort.broker.template import Encoded
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Buffer
from kohort.protocol.framing import Frame, Received

HEAD: Final = 8
"""Bytes of a response's size and correlation id."""
LONGEST_KEPT: Final = 1024 * 1024
"""Bytes of the longest response that is kept for a rule with ``stale``."""
CORRUPTED: Final = 3
"""Bytes of a response that are changed."""


def faulty_class(
    faults: Faults, plain: type[Connection] = Connection
) -> type[FaultyConnection]:
    """The class of a broker's connections while there are rules in its plan.

    Args:
        faults: the plan.
        plain: their class without rules.
    """
    bases = (FaultyConnection,) if plain is Connection else (FaultyConnection, plain)
    names = {"__slots__": (), "faults": faults, "plain": plain}
    return type("FaultyConnection", bases, names)


def settle(connection: Connection) -> None:
    """Makes a connection a plain one if there is no rule and nothing waits."""
    if isinstance(connection, FaultyConnection):
        faults = connection.faults
        link = faults.links.get(connection)
        if not faults.is_active and (link is None or not link.is_busy):
            faults.links.pop(connection, None)
            plain: Connection = connection
            plain.__class__ = connection.plain


class FaultyConnection(Connection):
    """A connection while there are rules; see the top of the module.

    Attributes:
        faults: the plan; set on a subclass, so that connections need no slot for it.
        plain: the class of the connection without rules.
    """

    __slots__ = ()
    faults: ClassVar[Faults]
    plain: ClassVar[type[Connection]]

    @property
    def is_heard(self) -> bool:
        """The same, but False in a black hole and behind a swallowed request."""
        link = self.faults.links.get(self)
        if link is not None and link.is_silent:
            return False
        return super().is_heard and not self.faults.is_cut_off(self)

    # -- in

    def _handle_only(self, frame: Frame) -> None:
        self._frames.append(frame)
        self._handle_frames()

    def _handle_frames(self) -> None:
        if self._frames and self._current is None and self._is_gated():
            self._report_memory()
        else:
            super()._handle_frames()

    def _handle_again(self, *_: object) -> bool:
        """Every request passes the plan."""
        return False

    def _handle(
        self,
        buffer: Received,
        start: int,
        end: int,
        now: float,
        routes: Mapping[int, Route],  # noqa: ARG002 - it has its own
    ) -> None:
        super()._handle(buffer, start, end, now, FAULTY_ROUTES)

    def _is_gated(self) -> bool:
        """Returns whether the next request has to wait for a time or a rule's end."""
        faults = self.faults
        link = faults.links.get(self)
        if not faults.gates:
            if link is not None and link.gate is not None:
                link.gate.cancel()
                link.gate = None
            return False
        client_id = self._next_client_id()
        if faults.black_hole_for(self, client_id) is not None:
            return True
        if link is not None and link.gate is not None:
            return True
        if link is not None and link.is_open:
            link.is_open = False
            return False
        jitter = faults.jitter_for(self, client_id)
        if jitter is not None:
            link = faults.link(self)
            link.gate = faults.call_later(jitter[1], self._open_gate)
        return jitter is not None

    def _open_gate(self) -> None:
        link = self.faults.link(self)
        link.gate = None
        link.is_open = True
        self._continue()
        settle(self)

    def _next_client_id(self) -> str:
        """The client id of the next request."""
        if self._frames:
            buffer, start, end = self._frames[0]
            if end - start >= HEAD + 2:
                (size,) = struct.unpack_from(">h", buffer, start + HEAD)
                first = start + HEAD + 2
                if 0 <= size <= end - first:
                    raw = bytes(buffer[first : first + size])
                    return raw.decode("utf-8", "replace")
        return self._client[1].id

    # -- out

    def send(self, request: Request, parts: list[Buffer]) -> None:
        """Sends the response as the rules demand; one without parts delays nothing."""
        if request is not self._current:
            # The connection is gone.
            return
        faults = self.faults
        link = faults.link(self)
        struck = {kind: rule for kind, rule in link.struck.items() if not rule.is_over}
        keepers, link.struck, link.keepers = link.keepers, {}, []
        rule = struck.get(ANSWER)
        if not parts:
            if rule is not None and (rule.disconnect or rule.truncate):
                self.fail(f"{rule.label}: {rule.effect}")
            super().send(request, parts)
            settle(self)
            return
        if keepers and sum(map(len, parts)) <= LONGEST_KEPT:
            faults.keep(keepers, request, b"".join(parts)[HEAD:])
        link.late = request, parts, rule
        link.waits_for = {}
        if DELAY in struck:
            link.waits_for[struck[DELAY]] = (struck[DELAY].delay_ms or 0) / 1000
        jitter = faults.jitter_for(self, request.client.id)
        if jitter is not None:
            link.waits_for[jitter[0]] = jitter[1]
        wait = faults.response_delay + sum(link.waits_for.values())
        link.due = faults.now() + wait
        self._send_in(wait)

    def _send_in(self, seconds: float) -> None:
        """Schedules the waiting response."""
        if seconds > 0:
            timer = self.faults.call_later(seconds, self._send_late)
            self.faults.link(self).timer = timer
        else:
            self._send_late()

    def _send_late(self) -> None:
        """Sends the waiting response, unless the client is in a black hole."""
        faults = self.faults
        link = faults.link(self)
        assert link.late is not None
        request, parts, rule = link.late
        link.stop()
        hole = faults.black_hole_for(self, request.client.id)
        if hole is not None:
            link.waits_for = {hole: 0.0}
            return
        if rule is not None and rule.trickle_ms is not None:
            self._flush()
            link.late = request, [memoryview(part) for part in parts if part], None
            link.waits_for = {rule: 0.0}
            self._send_byte(rule.trickle_ms / 1000)
            return
        link.late = None
        if rule is None:
            super().send(request, parts)
        elif rule.corrupt:
            super().send(request, corrupted(parts, faults.seed, rule))
        else:
            self.fail(f"{rule.label}: {rule.effect}")
            super().send(request, half(parts) if rule.truncate else [])
        settle(self)

    def _send_byte(self, pause: float) -> None:
        """Sends the next byte of a response; the last one ends its wait."""
        link = self.faults.link(self)
        assert link.late is not None
        _, parts, _ = link.late
        first = parts[0]
        if len(first) == len(parts) == 1:
            self._send_late()
            return
        self._transport.write(bytes(first[:1]))
        parts[:1] = [first[1:]] if len(first) > 1 else []
        again = partial(self._send_byte, pause)
        link.timer = self.faults.call_later(pause, again)

    # -- the end

    def faults_changed(self) -> None:
        """Rules came or went: ends the waits for rules that are gone."""
        link = self.faults.links.get(self)
        if link is not None and link.late is not None:
            over = [rule for rule in link.waits_for if rule.is_over]
            if over:
                link.due -= sum(map(link.waits_for.pop, over))
                link.stop()
                self._send_in(link.due - self.faults.now())
        self._closed.get_loop().call_soon(self._continue)
        settle(self)

    def close(self) -> asyncio.Future[None]:
        """Sends the waiting response, and closes."""
        self._frames.clear()
        link = self.faults.links.get(self)
        if link is not None and link.late is not None:
            self._send_late()
        return super().close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets everything that waits."""
        link = self.faults.links.pop(self, None)
        super().connection_lost(exc)
        if link is not None:
            link.cancel()
            for shadow in link.shadows:
                if shadow.abandon is not None:
                    shadow.abandon()


def corrupted(parts: list[Buffer], seed: int, rule: Rule) -> list[Buffer]:
    """A response with some bytes inverted; its size and correlation id stay correct."""
    body = sum(map(len, parts)) - HEAD
    shares = (chance(seed, rule.id, rule.strikes, n) for n in range(CORRUPTED))
    places = sorted({HEAD + int(share * body) for share in shares}, reverse=True)
    found: list[Buffer] = []
    start = 0
    for part in parts:
        rest, end = memoryview(part), start + len(part)
        # Nothing is copied: a response may have 50 MB.
        while places and places[-1] < end:
            at = places.pop() - end + len(rest)
            found += [rest[:at], bytes([rest[at] ^ 0xFF])]
            rest = rest[at + 1 :]
        found.append(rest)
        start = end
    return found


def half(parts: list[Buffer]) -> list[Buffer]:
    """The first half of a response; its size field stays that of the whole."""
    left = sum(map(len, parts)) // 2
    some: list[Buffer] = []
    for part in parts:
        some.append(part[:left])
        left -= len(some[-1])
    return some


# -- requests


class FaultyRoute(Route):
    """A route with the plan between the decoded request and its handler."""

    __slots__ = ("_handler",)

    def __init__(self, route: Route) -> None:
        super().__init__(route.format.api, route.format.version)
        self._handler = self.handle
        self.handle = self._handle_struck
        self.event = None

    def _handle_struck(self, request: Request) -> Work:
        connection, facts = request.peer, Facts(request)
        if isinstance(connection, FaultyConnection) and connection.faults.reads_topics:
            yield from facts.read_topics()
        if not isinstance(connection, FaultyConnection):
            # The rules were removed while it was decoded.
            yield from self._handled(request)
            return
        faults = connection.faults
        request.__class__ = FaultyRequest
        asked = faults.intercept(facts)
        if asked is None:
            struck = faults.strike(facts)
        else:
            struck = {kind_of(rule): rule for rule in asked.rules}
        link = faults.link(connection)
        link.struck, link.keepers = struck, facts.keepers
        link.errors = link.row = None
        link.change = None if asked is None else asked.changes
        if faults.requests.is_on:
            link.row = _recorded(facts, struck)
            faults.requests.add(link.row)
        if asked is not None and asked.response is not None:
            request.finish(None if _is_without_acks(request) else asked.response)
        else:
            yield from self._decide(facts, struck.get(DECISION), connection, link)

    def _decide(
        self,
        facts: Facts,
        rule: Rule | None,
        connection: FaultyConnection,
        link: Link,
    ) -> Work:
        """Handles the request, or does what the rule says."""
        request = facts.request
        if rule is None:
            yield from self._handled(request)
        elif rule.error is not None:
            yield from self._fail(facts, rule, link)
        elif rule.stale:
            kept = connection.faults.kept(rule, request)
            cast("FaultyRequest", request).answer_again(kept)
        elif rule.duplicate:
            shadow = _shadow(request, link)
            link.shadows.append(shadow)
            yield from self._handled(shadow)
            yield from self._handled(request)
        else:
            link.struck = {}
            if rule.disconnect is not None:
                connection.fail(f"{rule.label}: disconnect")
            elif not _is_without_acks(request):
                # As after `Request.forget`, the request counts as being handled.
                link.is_silent = True
                request.message = None
                return
            Connection.send(connection, request, [])

    def _fail(self, facts: Facts, rule: Rule, link: Link) -> Work:
        """Answers with the rule's error; handles rows that it has not struck."""
        request = facts.request
        if not is_of_rows(rule, request.api.name):
            yield from _answer_error(request, rule)
            return
        if has_rows(request, rule):
            in_rows = request.api.name != "Metadata"
            kept, request.message = yield from split(facts, rule)
            if kept is None:
                yield from _answer_error(request, rule, in_rows=in_rows)
                return
            code, why = ErrorCode[rule.error or ""], _why(rule)
            errors = yield from error_answer(request, code, why, in_rows=in_rows)
            link.errors = Errors(rule, request.version, errors)
            request.message = kept
        else:
            link.errors = Errors(rule, request.version)
        yield from self._handled(request)

    def _handled(self, request: Request) -> Work:
        work = self._handler(request)
        if work is not None:
            yield from work


class _FaultyRoutes(Routes):
    """The routes of requests that pass the plan."""

    def __missing__(self, key_and_version: int) -> Route:
        found = self[key_and_version] = FaultyRoute(ROUTES[key_and_version])
        return found


FAULTY_ROUTES: Final = _FaultyRoutes()


def _answer_error(request: Request, rule: Rule, *, in_rows: bool = False) -> Work:
    """Answers with the rule's error; as in Kafka, acks 0 closes the connection."""
    if _is_without_acks(request):
        _fail_unanswered(request, rule)
        request.finish(None)
        return
    code = ErrorCode[rule.error or ""]
    response = yield from error_answer(request, code, _why(rule), in_rows=in_rows)
    if isinstance(response, bytes):
        request.finish(Encoded([response], {code}))
    else:
        yield from request.finish_in_pieces(response)


def _why(rule: Rule) -> str:
    return f"injected by {rule.label}"


def _fail_unanswered(request: Request, rule: Rule) -> None:
    request.peer.fail(f"{rule.label}: {rule.error}, and no answer is asked for")


_PRODUCE = 0


def _is_without_acks(request: Request) -> bool:
    """Returns whether a request gets no response: Produce with acks 0."""
    return bool(request.api.key == _PRODUCE and request.message.acks == 0)


def _recorded(facts: Facts, struck: dict[str, Rule]) -> Recorded:
    request = facts.request
    return Recorded(
        time_ns=ns(request.node.cluster.clock.now()),
        api=request.api.name,
        version=request.version,
        client_id=request.client.id,
        software=request.peer.software_name,
        connection=request.client.connection or 0,
        node=request.node.id,
        group=facts.group,
        transactional_id=facts.transactional_id,
        member_id=facts.member_id,
        instance_id=facts.instance_id,
        fault=", ".join(rule.label for rule in struck.values()) or None,
    )


class FaultyRequest(Request):
    """A request on a connection under a plan."""

    __slots__ = ()

    is_under_plan = True

    def _link(self) -> Link | None:
        """The state of its connection; None if there is none."""
        connection = self.peer
        if not isinstance(connection, FaultyConnection):
            return None
        return connection.faults.links.get(connection)

    def _row(self) -> Recorded | None:
        link = self._link()
        return None if link is None else link.row

    def _changed(self, answer: Any) -> Any:
        """The answer with the errors of its rows, and the throttle time of a rule."""
        link = self._link()
        if link is not None and link.errors is not None:
            if answer is None:
                # As in Kafka, an error closes the connection.
                _fail_unanswered(self, link.errors.rule)
            else:
                answer = link.errors.join(self._format.decoded(answer))
            link.errors = None
        if link is not None and link.change is not None:
            answer = self._by_function(link.change, answer)
            link.change = None
        rule = None if link is None else link.struck.get(THROTTLE)
        if rule is None or rule.is_over:
            return super()._changed(answer)
        self.throttle_ms = max(self.throttle_ms, rule.throttle_ms or 0)
        return self._throttled(answer)

    def _by_function(self, change: Change, answer: Any) -> Any:
        """The answer as a function of `Faults.on` changes it."""
        if answer is None:
            return None
        try:
            return change(self._format.decoded(answer))
        except Exception as error:  # noqa: BLE001 - any error of the user's code
            connection = cast("FaultyConnection", self.peer)
            connection.faults.function_failed(error)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            return _result_of(error_answer(self, code, "a function has failed"))

    def _count(self, errors: AbstractSet[int] | None) -> None:
        """Counts the request, and completes its row in the record of requests."""
        row = self._row()
        if row is not None and errors is not None:
            row.error = ", ".join(map(name_of, sorted(errors))) or "NONE"
        super()._count(errors)

    def answer_again(self, body: bytes) -> None:
        """Sends an earlier response, without its head, in answer to this request."""
        # The message is preceded by the end of a flexible header: no tagged field.
        message = body[self.api.response_header_version(self.version) :]
        errors = errors_in(self._format.decoded(message))
        self.finish(Encoded([message], errors))

    def twin(self, peer: Unheard) -> Request:
        """The same request, whose response goes elsewhere."""
        return Request(
            self._format,
            self._respond,
            self.correlation_id,
            self.client,
            self.message,
            self.node,
            peer,
        )


def _result_of(work: Generator[None, None, Any]) -> Any:
    """The result of some work, done at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


class Unheard:
    """The peer of a duplicate: drops its response.

    Args:
        peer: the connection.
        link: its state.
    """

    def __init__(self, peer: FaultyConnection, link: Link) -> None:
        self.software_name = peer.software_name
        self.software_version = peer.software_version
        self.listener = peer.listener
        self.client = peer.client
        self.is_heard = False
        self.reads = 0
        self._peer = peer
        self._link = link

    def send(self, request: Request, parts: list[Buffer]) -> None:  # noqa: ARG002 - dropped
        """Drops the duplicate's response."""
        if request in self._link.shadows:
            self._link.shadows.remove(request)

    def throttle(self, wait_ms: int) -> None:
        """Does nothing: the response that is sent throttles the client."""

    def abort(self) -> None:
        """Closes the connection at once."""
        self._peer.abort()

    def fail(self, why: str) -> None:
        """Closes the connection after the responses so far are sent."""
        self._peer.fail(why)


def _shadow(request: Request, link: Link) -> Request:
    peer = cast("FaultyConnection", request.peer)
    return cast("FaultyRequest", request).twin(Unheard(peer, link))
