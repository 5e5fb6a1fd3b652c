"""Operations: the requests of the HTTP port, each declared once.

The handler's signature is part of the declaration:

    async def move(self, path: PartitionPath, body: ToNode) -> PartitionMoved: ...

    Operation("POST", "/v1/partitions/{topic}/{index}/move", handlers.move, (404, 409))

`path`, `query` and `body` are msgspec structs, and can be left out; the answer is a
dataclass or a TypedDict. The route, the checks of a request's fields, and the OpenAPI
document (`kohort.control.http.openapi`) are made from this; its texts are those of the
docstrings, and of their "Attributes:" for the fields.

Operations that are verbs are made by `kohort.control.http.verb_routes`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    TypeGuard,
    TypeVar,
    cast,
    get_type_hints,
)

import msgspec
from aiohttp import web

from kohort.control.http.invalid_fields import sentence
from kohort.control.http.json_http import json_response
from kohort.control.verbs import MOST_CHARACTERS

T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V")

Text = Annotated[str, msgspec.Meta(max_length=MOST_CHARACTERS)]
NodeId = Annotated[
    int, msgspec.Meta(ge=0, le=2**31 - 1, description="The id of a node.")
]

LONGEST: Final = 200
"""Characters of a request's error, which may repeat a name of the request."""


class Fields(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Fields of a path, a query or a body.

    Attributes:
        one_of: names of which exactly one must be given; each has the default UNSET.
    """

    one_of: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        given = [getattr(self, each) is not msgspec.UNSET for each in self.one_of]
        if given and sum(given) != 1:
            raise ValueError(f"Give one of {', '.join(self.one_of)}")


def is_struct(kind: Any) -> TypeGuard[type[Fields]]:
    """True if a type is a class of fields."""
    return isinstance(kind, type) and issubclass(kind, Fields)


async def in_turns(work: Generator[None, None, V]) -> V:
    """Returns the value of some work; others have their turn between its pieces."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast(V, end.value)
        await asyncio.sleep(0)


class Nothing(Fields):
    """No fields."""


class Types(msgspec.Struct, frozen=True):
    """The types of a handler.

    Attributes:
        path: of the names in the path.
        query: of the parameters behind it.
        body: of the JSON object that is sent, `Fields` or a dict; None for methods
            without a body.
        answer: of the JSON object that is returned.
    """

    path: type[Fields]
    query: type[Fields]
    body: Any
    answer: Any


@dataclass(frozen=True)
class Operation:
    """A request of the HTTP port.

    Attributes:
        method: GET, POST or DELETE.
        path: the path; names in braces are parameters.
        handler: answers the request; called with the fields that it has parameters
            for. To refuse it raises a `web.HTTPException` with a sentence as text.
        refuses: the statuses of its refusals, without those of all operations.
        status: of its answer.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    refuses: tuple[int, ...] = ()
    status: int = 200

    @cached_property
    def types(self) -> Types:
        """The types of the handler's parameters and of its answer."""
        hints = get_type_hints(self.handler, include_extras=True)
        return Types(
            path=hints.get("path", Nothing),
            query=hints.get("query", Nothing),
            body=hints.get("body", Nothing) if self.method == "POST" else None,
            answer=hints["return"],
        )

    @property
    def text(self) -> str:
        """The handler's docstring."""
        return inspect.getdoc(self.handler) or ""

    def route(self) -> web.RouteDef:
        """The route of the operation."""
        if self.method == "GET":
            return web.get(self.path, self._answer)  # and HEAD
        return web.route(self.method, self.path, self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        types = self.types
        try:
            path = msgspec.convert(dict(request.match_info), types.path, strict=False)
        except msgspec.ValidationError:
            # The same answer as the router's for an unknown path.
            raise web.HTTPNotFound from None
        given: dict[str, Any] = {"path": path, "query": _query(request, types.query)}
        if types.body is not None:
            given["body"] = _body(await request.read(), types.body)
        answer = self.handler(**{name: given[name] for name in self._takes})
        if self.method != "GET":
            # A client that goes cancels its request, and leaves no change half done.
            task = asyncio.ensure_future(answer)
            self._changing.add(task)
            task.add_done_callback(self._changing.discard)
            answer = asyncio.shield(task)
        return json_response(await answer, status=self.status)

    @cached_property
    def _takes(self) -> list[str]:
        return list(inspect.signature(self.handler).parameters)

    @cached_property
    def _changing(self) -> set[asyncio.Future[Any]]:
        return set()


def _query(request: web.Request, kind: type[T]) -> T:
    """The parameters of a query, which are texts."""
    given: dict[str, str] = {}
    for name, value in request.query.items():
        if name in given:
            raise web.HTTPBadRequest(text=f"the query has {name[:LONGEST]!r} twice")
        given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _bad("query", kind, error) from None


def _body(text: bytes, kind: Any) -> Any:
    """The fields of a request's JSON object; no body is an object without fields."""
    try:
        found = _JSON.decode(text) if text.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise web.HTTPBadRequest(text="the body is not JSON") from None
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise _bad("body", kind, error) from None


def _number(text: str) -> float:
    """A number with a point or an exponent; 2.0 is an integer to JSON Schema."""
    found = float(text)
    return int(found) if found.is_integer() else found


_JSON: Final = msgspec.json.Decoder(float_hook=_number)


def _bad(what: str, kind: Any, error: msgspec.ValidationError) -> web.HTTPBadRequest:
    """A refusal with a sentence about invalid fields, which lists the valid ones."""
    return web.HTTPBadRequest(text=sentence(what, kind, str(error)[:LONGEST]))
