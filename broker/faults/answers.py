"""Error responses, for every API, as Kafka makes them.

If an API's response has an error code at its top, that is set, and the rest is empty.
If only its rows have one, the request's rows (topics and their partitions, groups,
resources) are echoed with the code in each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Final

from kohort.broker.api_counts import ERROR_FIELDS
from kohort.broker.dispatch import versions_refusal
from kohort.broker.long_work import Pace
from kohort.broker.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.fields import Primitive, fields_of

_ROW_COST: Final = 3
"""Cost of one row, as `Pace` counts."""
_UNKNOWN: Final = {
    "base_offset": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "low_watermark": -1,
    "node_id": -1,
    "port": -1,
    "producer_epoch": -1,
}
"""Fields that Kafka sets to -1 beside an error, and that have another default."""
_SAME: Final = (
    ("partition_index", "partition", "index", "partition_id"),
    ("name", "topic", "topic_name"),
)
"""Names of fields with the same meaning."""
_ECHOED: Final = frozenset(
    {
        *_SAME[0],
        *_SAME[1],
        "entity",
        "group_id",
        "group_instance_id",
        "member_id",
        "producer_id",
        "resource_name",
        "resource_type",
        "topic_id",
    }
)
"""Fields that identify the subject of a row."""
_NAMES_OF_ROWS: Final = ("key", "group_id", "name", "topic", "transactional_id")
"""Fields of rows that echo a string, if the request has nothing else."""
_OF_MEMBERS: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
)
"""Errors of LeaveGroup that Kafka gives to single members, since v3."""
OF_SESSIONS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Errors of Fetch that are not about single partitions."""


def error_answer(
    request: Request, code: ErrorCode, why: str, *, in_rows: bool = False
) -> Generator[None, None, Any]:
    """Makes the error response to a request, a piece at a time.

    Args:
        request: the request, decoded.
        code: the error.
        why: the error message, if the response has one.
        in_rows: whether only the rows of partitions have the error, also where the
            response has one for all of them.

    Returns:
        A response of the request's API that its version can carry, or the bytes of a
        body in another version.
    """
    make = _SPECIAL.get(request.api.name, _plain)
    return (yield from make(request, _Maker(request.version, code, why, in_rows)))


class _Maker:
    """Makes messages with an error.

    Args:
        version: version of the response.
        code: the error.
        why: the error message.
        in_rows: whether only the rows of partitions have the error.
    """

    def __init__(
        self, version: int, code: ErrorCode, why: str, in_rows: bool = False
    ) -> None:
        self.version = version
        self.in_rows = in_rows
        self._nested: dict[type, tuple[str, type] | None] = {}
        self.code = code
        self.why = why
        self._pace = Pace()

    def nested(self, cls: type) -> tuple[str, type] | None:
        """The field with the rows that have the error, and their class.

        None if the message itself has the error.
        """
        if cls not in self._nested:
            self._nested[cls] = None if self._is_last(cls) else self._found_in(cls)
        return self._nested[cls]

    def _is_last(self, cls: type) -> bool:
        names = {each.name for each in fields_of(cls) if each.exists_in(self.version)}
        has_error = not names.isdisjoint(ERROR_FIELDS)
        return has_error and (not self.in_rows or not names.isdisjoint(_SAME[0]))

    def _found_in(self, cls: type) -> tuple[str, type] | None:
        for field in fields_of(cls):
            kind = field.kind
            if isinstance(kind, Primitive) or not field.exists_in(self.version):
                continue
            if self._is_last(kind) or self.nested(kind):
                return field.name, kind
        return None

    def message(self, cls: type, **fields: Any) -> Any:
        """A message with the error, and all other fields unknown."""
        values: dict[str, Any] = {}
        for field in fields_of(cls):
            if field.name in ERROR_FIELDS:
                is_last = self.nested(cls) is None
                values[field.name] = self.code if is_last else ErrorCode.NONE
            elif field.name == "error_message":
                values[field.name] = self.why
            elif field.name in _UNKNOWN:
                values[field.name] = _UNKNOWN[field.name]
        return cls(**{**values, **fields})

    def rows(self, cls: type, asked: Sequence[Any]) -> Generator[None, None, list[Any]]:
        """The rows of a response: one for each row of the request."""
        nested = self.nested(cls)
        answers = []
        for row in asked:
            fields = _echoed(cls, row)
            if nested is not None:
                inside = _sequence_of(row, self.version)
                fields[nested[0]] = yield from self.rows(nested[1], inside)
            answers.append(self.message(cls, **fields))
            if self._pace.spend(_ROW_COST):
                yield
        return answers


def _sequence_of(message: Any, version: int) -> Sequence[Any]:
    """The rows of a request: the first of several fields that the version has."""
    cls: type = type(message)
    for field in fields_of(cls):
        if field.array and field.exists_in(version):
            return getattr(message, field.name) or ()
    return ()


def _echoed(cls: type, row: Any) -> dict[str, Any]:
    """The fields of a response's row that the request's row also has."""
    names = [field.name for field in fields_of(cls)]
    if isinstance(row, str):
        return {next(name for name in _NAMES_OF_ROWS if name in names): row}
    if isinstance(row, int):
        return {next(name for name in _SAME[0] if name in names): row}
    fields = {}
    source: type = type(row)
    asked = {field.name: field for field in fields_of(source)}
    for field in fields_of(cls):
        if field.name not in _ECHOED:
            continue
        alike = next((same for same in _SAME if field.name in same), (field.name,))
        found = next((asked[name] for name in alike if name in asked), None)
        if found is not None and found.kind == field.kind:
            fields[field.name] = getattr(row, found.name)
    return fields


def _plain(request: Request, maker: _Maker) -> Generator[None, None, Any]:
    cls = request.api.response_class
    nested = maker.nested(cls)
    if nested is None:
        return maker.message(cls)
    asked = _sequence_of(request.message, request.version)
    rows = yield from maker.rows(nested[1], asked)
    return maker.message(cls, **{nested[0]: rows})


# -- APIs whose responses need more


def _api_versions(request: Request, maker: _Maker) -> Generator[None, None, Any]:
    """A version that is not supported is refused in v0 (KIP-511)."""
    yield from ()
    if maker.code == ErrorCode.UNSUPPORTED_VERSION:
        return versions_refusal(request.node.cluster.apis)
    return maker.message(request.api.response_class)


def _fetch(request: Request, maker: _Maker) -> Generator[None, None, Any]:
    """Errors of partitions are in the rows, also since v7, and end the session."""
    message, sessions = request.message, request.node.fetch_sessions
    cls = request.api.response_class
    if maker.code in OF_SESSIONS and request.version >= _FIRST_WITH_SESSIONS:
        return maker.message(cls)
    session = sessions.get(message.session_id) if message.session_epoch > 0 else None
    topics = message.topics
    if session is not None:
        # Its requests list only changes (KIP-227).
        topics = _of_session(request, session.partitions)
        sessions.close(session.id)
    rows = yield from maker.rows(request.api.module.FetchableTopicResponse, topics)
    return cls(responses=rows)


def _of_session(
    request: Request, partitions: Iterable[tuple[str | bytes, int]]
) -> list[Any]:
    """The partitions of a fetch session, as a request without a session has them."""
    module = request.api.module
    rows: dict[str | bytes, list[Any]] = {}
    for topic, index in partitions:
        rows.setdefault(topic, []).append(module.FetchPartition(index))
    return [
        module.FetchTopic(**{_key_of(topic): topic}, partitions=some)
        for topic, some in rows.items()
    ]


def _key_of(topic: str | bytes) -> str:
    return "topic" if isinstance(topic, str) else "topic_id"


def _metadata(request: Request, maker: _Maker) -> Generator[None, None, Any]:
    """Topics have the error; brokers are listed, or clients would forget them."""
    cluster, module = request.node.cluster, request.api.module
    asked = request.message.topics
    if asked is None or (request.version == 0 and not asked):
        topics = [*cluster.topics.by_name.values()]
        asked = [module.MetadataRequestTopic(each.id, each.name) for each in topics]
    rows = yield from maker.rows(module.MetadataResponseTopic, asked)
    if request.version < _FIRST_WITH_NULL_NAMES:
        rows = [row for row in rows if row.name is not None]
    is_of_all = maker.code == ErrorCode.REBOOTSTRAP_REQUIRED
    return module.MetadataResponse(
        brokers=[
            module.MetadataResponseBroker(
                node.id, *node.addresses[request.peer.listener]
            )
            for node in cluster.nodes.values()
            if node.is_running
        ],
        cluster_id=cluster.id,
        controller_id=cluster.controller_id,
        topics=rows,
        error_code=maker.code if is_of_all else ErrorCode.NONE,
    )


def _leave_group(request: Request, maker: _Maker) -> Generator[None, None, Any]:
    cls, module = request.api.response_class, request.api.module
    if maker.code not in _OF_MEMBERS or request.version < _FIRST_WITH_MEMBERS:
        return maker.message(cls)
    rows = yield from maker.rows(module.MemberResponse, request.message.members)
    return cls(members=rows)


def _join_group(request: Request, maker: _Maker) -> Generator[None, None, Any]:
    """Has a member id, under which the client rejoins."""
    message = request.message
    member_id = message.member_id
    if maker.code == ErrorCode.MEMBER_ID_REQUIRED and not member_id:
        prefix = message.group_instance_id or request.client.id
        member_id = request.node.cluster.ids.member_id(prefix)
    name = None if request.version >= _FIRST_WITH_NULL_PROTOCOL else ""
    yield from ()
    return maker.message(
        request.api.response_class, member_id=member_id, protocol_name=name
    )


def _describe_log_dirs(request: Request, maker: _Maker) -> Generator[None, None, Any]:
    """Before v3 the row of a folder has the error."""
    cls = request.api.response_class
    if maker.nested(cls) is None:
        return maker.message(cls)
    log_dir = request.node.cluster.log_dir
    row = maker.message(request.api.module.DescribeLogDirsResult, log_dir=log_dir)
    yield from ()
    return cls(results=[row])


_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_NULL_NAMES: Final = 12
_FIRST_WITH_MEMBERS: Final = 3
_FIRST_WITH_NULL_PROTOCOL: Final = 7

_SPECIAL: Final[
    Mapping[str, Callable[[Request, _Maker], Generator[None, None, Any]]]
] = {
    "ApiVersions": _api_versions,
    "DescribeLogDirs": _describe_log_dirs,
    "Fetch": _fetch,
    "JoinGroup": _join_group,
    "LeaveGroup": _leave_group,
    "Metadata": _metadata,
}
