"""A request until it is answered, and the encoding of its response."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Protocol

from kohort.broker import telemetry
from kohort.broker.api_counts import errors_in, errors_in_pieces
from kohort.broker.cluster.cluster import Node
from kohort.broker.cluster.quotas import FETCH, PRODUCE, REQUEST
from kohort.broker.coordinator.effects import Result
from kohort.broker.flow_control import Unread
from kohort.broker.long_work import Pace, Work
from kohort.broker.notice import Client
from kohort.broker.template import Encoded, Template
from kohort.protocol.errors import KIP_389_GROUP_MAX_SIZE_REACHED, ErrorCode
from kohort.protocol.fields import Buffer, fields_of
from kohort.protocol.registry import Api
from kohort.protocol.slotted import replace

KOHORT = "kohort"
"""Client software that knows GROUP_MAX_SIZE_REACHED by KIP-389's number."""

log = telemetry.Logger("request")

LONGEST_ANSWER = 256 * 1024 * 1024
"""Maximum bytes of a response that is encoded in pieces. Kafka's limit is an int32, 2
GB. librdkafka accepts at most 100 MB (``receive.message.max.bytes``) by default, and a
Fetch has 55 MB (``fetch.max.bytes``); nothing else comes near."""
MOST_REPEATED_ROWS = 2_000_000
"""Rows of a response that repeat others: with 100 bytes each, 200 MB."""
SHORT_ANSWER = 4 * 1024 * 1024
"""Bytes that a response may have even if clients have not read `MOST_UNREAD` others."""
JOIN_BELOW = 16 * 1024
"""Bytes up to which parts of a response are joined; above, copying costs more."""

_HEAD = struct.Struct(">ii").pack
_FLEXIBLE_HEAD = struct.Struct(">iix").pack
_THROTTLE_TIME = struct.Struct(">i").pack
_THROTTLE_TIME_SIZE = 4
_NO_ERRORS: AbstractSet[int] = frozenset()
_PRODUCE, _FETCH = 0, 1
_JOIN_GROUP = 11
"""The only API with GROUP_MAX_SIZE_REACHED in its responses."""


class ResponseFormat:
    """The format of the responses of one API version.

    Args:
        api: the API.
        version: the version.
        template: makes the template of the responses to a `Replies`.

    Attributes:
        api, version: see Args.
        head: encodes the header: the size without its own 4 bytes, the correlation id.
        head_size: the bytes of the header in that size.
        latest: the latest result of a `Replies`, and its template.
    """

    __slots__ = (
        "_encode",
        "_encode_in_pieces",
        "_template",
        "api",
        "head",
        "head_size",
        "latest",
        "version",
    )

    def __init__(
        self,
        api: Api,
        version: int,
        template: Callable[[Api, int, Any], Template] | None = None,
    ) -> None:
        self._template = template
        # One object, as threads with a broker each share the format.
        self.latest: tuple[Any, Template | None] = None, None
        self.api = api
        self.version = version
        self._encode = api.response(version).encode_into
        self._encode_in_pieces = api.response(version).encode_in_pieces
        tagged = api.response_header_version(version) >= 1
        self.head = _FLEXIBLE_HEAD if tagged else _HEAD
        self.head_size = 5 if tagged else 4

    def frame(self, correlation_id: int, response: Any) -> list[Buffer]:
        """Encodes a response as the parts of a frame."""
        parts: list[Buffer] = [b""]
        self._encode(response, parts.append)
        size = self.head_size + sum(map(len, parts))
        parts[0] = self.head(size, correlation_id)
        return parts if size > JOIN_BELOW else [b"".join(parts)]

    def framed(self, correlation_id: int, body: Sequence[Buffer]) -> list[Buffer]:
        """The parts of the frame of an encoded body.

        Raises:
            AnswerSizeError: it is longer than `LONGEST_ANSWER`.
        """
        size = self.head_size + sum(map(len, body))
        if size > LONGEST_ANSWER:
            raise AnswerSizeError(f"{LONGEST_ANSWER:,} bytes")
        parts = [self.head(size, correlation_id), *body]
        return parts if size > JOIN_BELOW else [b"".join(parts)]

    def encode(self, response: Any) -> bytes:
        """Encodes a response, without its header."""
        parts: list[Buffer] = []
        self._encode(response, parts.append)
        return b"".join(parts)

    def delayed(self, response: Any, wait_ms: int) -> Any:
        """The response with a throttle time, if this version of it has one.

        Of encoded ones only those that begin with it, as nearly all do.
        """
        kind = type(response)
        if kind is bytes or kind is Encoded:
            first = fields_of(self.api.response_class)[0]
            if first.name != "throttle_time_ms" or not first.exists_in(self.version):
                return response
            start, *rest = [response] if kind is bytes else response.parts
            start = _THROTTLE_TIME(wait_ms) + start[_THROTTLE_TIME_SIZE:]
            return response._replace(parts=[start, *rest]) if rest else start
        if hasattr(response, "throttle_time_ms"):
            return replace(response, throttle_time_ms=wait_ms)
        return response

    def new_template(self, result: Any) -> Template:
        """Makes the template of the responses to a `Replies` with this result."""
        assert self._template is not None
        template = self._template(self.api, self.version, result)
        self.latest = result, template
        return template

    def size_of(self, response: Any) -> int:
        """The bytes of a response as Kafka counts them for quotas."""
        parts: list[Buffer] = []
        self._encode(response, parts.append)
        return 4 + sum(map(len, parts))

    def decoded(self, response: Any) -> Any:
        """Decodes a response that is encoded already."""
        if type(response) is bytes:
            body = response
        elif type(response) is Encoded:
            body = b"".join(response.parts)
        else:
            return response
        message, _ = self.api.response(self.version).decode(body, 0, len(body))
        return message

    def frame_in_pieces(
        self, correlation_id: int, response: Any, unread: Unread
    ) -> Generator[None, None, list[Buffer]]:
        """Like `frame`, a piece at a time; small parts of the frame are joined.

        What is encoded counts as unread meanwhile: many clients may have a long
        response encoded at the same time.

        Raises:
            AnswerSizeError: the response is longer than `LONGEST_ANSWER`, or than
                `SHORT_ANSWER` while clients have left very much unread.
        """
        parts: list[Buffer] = [b""]
        encoded: list[Buffer] = []
        size, counted = self.head_size, 0
        try:
            for _ in self._encode_in_pieces(response, encoded.append):
                size += sum(map(len, encoded))
                unread.size += size - counted
                counted = size
                if size > SHORT_ANSWER and unread.size > LONGEST_ANSWER:
                    raise AnswerSizeError(f"{size:,} bytes")
                join_small(encoded, parts)
                encoded.clear()
                yield
        finally:
            unread.size -= counted
        size += sum(map(len, encoded))
        join_small(encoded, parts)
        parts[0] = self.head(size, correlation_id)
        return parts


def join_small(parts: list[Buffer], out: list[Buffer]) -> None:
    """Adds parts to `out`; joins adjacent small ones."""
    small: list[Buffer] = []
    size = 0
    for part in parts:
        is_small = len(part) < JOIN_BELOW
        if is_small:
            small.append(part)
            size += len(part)
        if small and (size >= JOIN_BELOW or not is_small):
            out.append(b"".join(small))
            small, size = [], 0
        if not is_small:
            out.append(part)
    if small:
        out.append(b"".join(small))


def _errors(answer: Any) -> AbstractSet[int] | None:
    """The error codes in an answer; None if there is no answer."""
    if answer is None:
        return None
    if type(answer) is bytes:
        return _NO_ERRORS
    return errors_in(answer) if type(answer) is not Encoded else answer.errors


class AnswerSizeError(Exception):
    """A response that is too long to be sent."""

    def __init__(self, size: str) -> None:
        super().__init__(f"a response of more than {size}")


class Peer(Protocol):
    """The connection of a request."""

    software_name: str
    software_version: str
    listener: int

    def send(self, request: Request, parts: list[Buffer]) -> None:
        """Sends the response to its request; no parts means no response."""

    def throttle(self, wait_ms: int) -> None:
        """Handles no request for this time."""

    def abort(self) -> None:
        """Closes the connection at once."""

    def fail(self, why: str) -> None:
        """Closes the connection after the responses so far are sent."""


class Request:
    """One request until it is answered; it is its own token for a coordinator.

    Args:
        response_format: the encoding of its response.
        respond: converts a coordinator's result to the response.
        correlation_id: see below, as for the rest.

    Attributes:
        correlation_id: from the header; if the client repeats the request, the latest.
        message: the decoded body; of a long request, first its `UndecodedBody`.
        version: its version.
        client: the sender; its id, from the header, is empty if it was null.
        node: the node that received it.
        peer: the connection.
        abandon: called if the connection is lost before the response.
        started: when its handling began, on `time.monotonic`; 0 if unknown.
        size: bytes of its frame.
        throttle_ms: the client's wait after the response.
    """

    __slots__ = (
        "_format",
        "_respond",
        "abandon",
        "client",
        "correlation_id",
        "message",
        "node",
        "peer",
        "size",
        "started",
        "throttle_ms",
        "version",
    )

    def __init__(
        self,
        response_format: ResponseFormat,
        respond: Callable[[Request, Any], None],
        correlation_id: int,
        client: Client,
        message: Any,
        node: Node,
        peer: Peer,
        started: float = 0.0,
        size: int = 0,
    ) -> None:
        self._format = response_format
        self._respond = respond
        self.correlation_id = correlation_id
        self.client = client
        self.message = message
        self.version = response_format.version
        self.node = node
        self.peer = peer
        self.abandon: Callable[[], object] | None = None
        self.started = started
        self.size = size
        self.throttle_ms = 0

    @property
    def api(self) -> Api:
        """The API of the request."""
        return self._format.api

    def answer(self, result: Result) -> None:
        """Takes a coordinator's result: the request is its own token."""
        try:
            self._respond(self, result)
        except Exception as error:  # noqa: BLE001 - see `_not_answered`
            self._not_answered(error)

    def answer_alike(self, result: Result, value: str | bytes) -> None:
        """Takes a result that others get, too, and the value that only it has.

        The rest of the response is encoded once for all of them.
        """
        try:
            known, template = self._format.latest
            if template is None or (known is not result and known != result):
                template = self._format.new_template(result)
            self.finish(template.filled(value))
        except Exception as error:  # noqa: BLE001 - see `_not_answered`
            self._not_answered(error)

    def _not_answered(self, error: Exception) -> None:
        """Reports a defect of ours.

        Other requests are answered in the same turn, and must be.
        """
        api, version = self.api.name, self.version
        log.error("reply_failed", api=api, version=version, exc_info=error)
        self.peer.abort()

    def go_on(self, work: Work) -> None:
        """Does the rest of this request's work, after it waited for something.

        A failure affects only this request: others may continue in the same turn.
        """
        try:
            piecework = self.node.cluster.long_work.start(work, self.failed)
        except Exception as error:  # noqa: BLE001 - see above
            self.failed(error)
        else:
            self.abandon = None if piecework is None else piecework.stop

    @property
    def is_helpful(self) -> bool:
        """True if requests that Kafka never answers get a response."""
        return bool(self.node.cluster.config["kohort.strictness"] == "helpful")

    def forget(self, why: str) -> None:
        """Kafka never answers this request, so the connection waits until it closes."""
        self.message = None
        log.info(
            "request_not_answered",
            api=self.api.name,
            version=self.version,
            client=self.client.id,
            why=f"{why}; kohort.strictness=helpful answers it",
        )

    def failed(self, error: Exception) -> None:
        """Closes the connection: the client must not take a defect for a response."""
        log.error(
            "request_failed", api=self.api.name, version=self.version, exc_info=error
        )
        self.peer.abort()

    # -- the way out

    is_under_plan: ClassVar = False
    """Whether a plan of faults looks at the answer; see `FaultyRequest`."""

    def encode(self, response: Any) -> bytes:
        """Encodes a message of the response, for `Encoded`."""
        return self._format.encode(response)

    def finish(self, answer: Any) -> None:
        """Sends the answer: the one way out of a request.

        Args:
            answer: the response. A message; or the bytes of an encoded one without an
                error; or `Encoded`; or None if the client expects none.

        Raises:
            AnswerSizeError: the response is longer than `LONGEST_ANSWER`.
        """
        node, form, is_under_plan = self.node, self._format, self.is_under_plan
        if is_under_plan or node.cluster.quotas.is_used:
            answer = self._changed(answer)
        parts: list[Buffer]
        if type(answer) is bytes:
            size = form.head_size + len(answer)
            parts = [form.head(size, self.correlation_id) + answer]
        elif type(answer) is Encoded:
            parts = form.framed(self.correlation_id, answer.parts)
        elif answer is None:
            parts = []
        else:
            parts = form.frame(self.correlation_id, self._numbered(answer))
        if is_under_plan or node.counters is not None:
            self._count(_errors(answer))
        self.peer.send(self, parts)

    def finish_in_pieces(
        self, response: Any, pace: Pace | None = None
    ) -> Iterable[None]:
        """The same for a response that may be long; for handlers that are generators.

            yield from request.finish_in_pieces(response, pace)

        It is encoded in pieces of less than a millisecond. The response must not change
        meanwhile.

        Args:
            response: a message.
            pace: has counted the rows of the response while they were made. A few rows
                are encoded at once, which costs less.
        """
        if pace is not None and pace.is_short:
            self.finish(response)
            return ()
        return self._finish_in_pieces(response)

    def _finish_in_pieces(self, response: Any) -> Generator[None, None, None]:
        node = self.node
        if self.is_under_plan or node.cluster.quotas.is_used:
            response = self._changed(response)
        parts = yield from self._format.frame_in_pieces(
            self.correlation_id, self._numbered(response), node.cluster.unread
        )
        if self.is_under_plan or node.counters is not None:
            self._count((yield from errors_in_pieces(response)))
        self.peer.send(self, parts)

    def _changed(self, answer: Any) -> Any:
        """The answer that is sent in place of the handler's."""
        return self._throttled(answer) if self.node.cluster.quotas.is_used else answer

    def _count(self, errors: AbstractSet[int] | None) -> None:
        """Counts the request as answered, with these error codes."""
        if self.node.counters is not None:
            self.node.counters.answered(self.api, self.started, errors or _NO_ERRORS)

    def _throttled(self, response: Any) -> Any:
        """The answer with the client's throttle time; stops reading meanwhile.

        As in Kafka, a throttled Fetch gets no records, and the client fetches again.
        """
        quotas, client_id = self.node.cluster.quotas, self.client.id
        wait_ms = max(self.throttle_ms, quotas.throttle_ms(REQUEST, client_id))
        if self._format.api.key == _PRODUCE:
            quotas.count(PRODUCE, client_id, self.size)
            wait_ms = max(wait_ms, quotas.throttle_ms(PRODUCE, client_id))
        elif self._format.api.key == _FETCH:
            response = self._format.decoded(response)
            size = self._format.size_of(response)
            quotas.count(FETCH, client_id, size)
            wait_ms = max(wait_ms, quotas.throttle_ms(FETCH, client_id))
            if wait_ms:
                quotas.count(FETCH, client_id, -size)
                # The client does not learn of a new session: it asks for one again.
                goes_on = self.message.session_epoch > 0
                session_id = response.session_id if goes_on else 0
                response = replace(response, session_id=session_id, responses=())
        if not wait_ms:
            return response
        self.peer.throttle(wait_ms)
        return self._format.delayed(response, wait_ms)

    def _numbered(self, response: Any) -> Any:
        """A JoinGroup response, GROUP_MAX_SIZE_REACHED in the client's numbering.

        KIP-389's text says 77, Apache Kafka's clients only know 81. This is the only
        place that decides which one is sent (``wire.error.numbering``).
        """
        if (
            self._format.api.key != _JOIN_GROUP
            or response.error_code != ErrorCode.GROUP_MAX_SIZE_REACHED
        ):
            return response
        numbering = self.node.cluster.config["wire.error.numbering"]
        if numbering == "apache" or (
            numbering == "auto" and self.peer.software_name != KOHORT
        ):
            return response
        return replace(response, error_code=KIP_389_GROUP_MAX_SIZE_REACHED)
