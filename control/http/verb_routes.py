"""The HTTP operations of verbs, from their declarations (`kohort.control.verbs`)."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from kohort.broker.cluster.cluster import ClusterError
from kohort.broker.log.store import StorageError
from kohort.control.group_members import UnknownMemberError
from kohort.control.http.long_polls import LongPolls
from kohort.control.http.operations import Fields, Operation
from kohort.control.power import PowerError, UnknownGroupError
from kohort.control.verbs import Field, Verb, Verbs, fields, opening

P = TypeVar("P", bound=Fields)
S = TypeVar("S", bound=Verbs)


def verb_operations(
    verbs: type[Verbs],
    path_type: type[P],
    subject: Callable[[P], Any],
    *,
    answer: Any = None,
) -> list[Operation]:
    """The operations of verbs: POST requests below a resource.

    Args:
        verbs: the class that declares them.
        path_type: the names in the path of the resource.
        subject: makes the handle that performs the verbs.
        answer: the type of `describe` of the handle, which each verb answers; None:
            each answers its result.
    """

    def operation(verb: Verb) -> Operation:
        declared = [*fields(verb.do)]
        is_of_member = any(each.is_alternative for each in declared)
        what = "member" if is_of_member else verbs.what
        name = verb.name if verb.name.endswith(what) else f"{verb.name}_{what}"

        async def handle(path: P, body: Fields) -> Any:
            found = subject(path)
            try:
                result = verb.do(found, **_given(body))
                if isawaitable(result):
                    result = await result
            except (UnknownGroupError, UnknownMemberError) as error:
                raise web.HTTPNotFound(text=str(error)) from None
            except (PowerError, ClusterError) as error:
                kind = web.HTTPConflict if found.exists else web.HTTPNotFound
                raise kind(text=str(error)) from None
            except (OSError, StorageError) as error:
                # The port is taken, or the data directory has no room.
                raise web.HTTPConflict(text=str(error)) from None
            return result if answer is None else found.describe()

        body = _struct(name, declared)
        handle.__name__, handle.__doc__ = name, opening(verb.do)
        result = answer or get_type_hints(verb.do)["return"]
        handle.__annotations__ = {"path": path_type, "body": body, "return": result}
        refuses = (404, 409) if verbs.names else (409,)
        return Operation("POST", f"/v1/{verbs.path}/{verb.name}", handle, refuses)

    return [operation(each) for each in verbs.all()]


def condition_operations(
    verbs: type[S],
    path_type: type[P],
    subject: Callable[[P], S],
    polls: LongPolls,
    *,
    answer: Any,
) -> list[Operation]:
    """The operations of conditions: GET requests that wait.

    Args:
        verbs: the class that declares them.
        path_type: the names in the path of the resource.
        subject: makes the handle that waits.
        polls: the requests that wait.
        answer: the type of `show` of the handle, the answer of each.
    """

    def operation(condition: Verb) -> Operation:
        name = f"{condition.name}_{verbs.what}"

        async def handle(path: P, query: Fields) -> Any:
            found = subject(path)
            try:
                waiting = condition.do(found, **_given(query))
            except ValueError as error:
                raise web.HTTPBadRequest(text=str(error)) from None
            await polls.wait(waiting)
            return found.show()

        handle.__name__, handle.__doc__ = name, opening(condition.do)
        query = _struct(name, [*fields(condition.do)], is_query=True)
        handle.__annotations__ = {"path": path_type, "query": query, "return": answer}
        path = f"/v1/{verbs.path}/{condition.name}"
        return Operation("GET", path, handle, (503, 504))

    return [operation(each) for each in verbs.conditions()]


def _given(fields: Fields) -> dict[str, Any]:
    found = {each: getattr(fields, each) for each in fields.__struct_fields__}
    return {each: value for each, value in found.items() if value is not UNSET}


def _struct(
    name: str, declared: list[Field], *, is_query: bool = False
) -> type[Fields]:
    """The type of the fields of a verb."""
    alternatives = tuple(each.name for each in declared if each.is_alternative)
    made = msgspec.defstruct(
        name.title().replace("_", ""),
        [_declared(each, is_query=is_query) for each in declared],
        bases=(Fields,),
        namespace={"__doc__": f"Fields of {name}.", "one_of": alternatives},
        kw_only=True,
    )
    assert issubclass(made, Fields)
    return made


def _declared(
    field: Field, *, is_query: bool
) -> tuple[str, Any] | tuple[str, Any, Any]:
    kind: Any = field.kind
    match field.bound:
        case int(most):
            kind = Annotated[kind, Meta(max_length=most)]
        case range() as values:
            kind = Annotated[kind, Meta(ge=values[0], le=values[-1])]
        case tuple() as choices:
            kind = Literal[choices]
    default = field.default
    if field.is_alternative or (is_query and default is None):
        kind, default = kind | UnsetType, UNSET
    elif field.is_nullable:
        kind = kind | None
    kind = Annotated[kind, Meta(description=field.text)]
    return (field.name, kind) if field.is_required else (field.name, kind, default)
