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
from kohort.control.http.operations import Fields, Operation
from kohort.control.power import PowerError, UnknownGroupError
from kohort.control.verbs import Field, Verb, Verbs, fields, opening

P = TypeVar("P", bound=Fields)


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
        alternatives = tuple(each.name for each in declared if each.is_alternative)
        name = f"{verb.name}_{'member' if alternatives else verbs.what}"

        async def handle(path: P, body: Fields) -> Any:
            given = {each: getattr(body, each) for each in body.__struct_fields__}
            known = {each: value for each, value in given.items() if value is not UNSET}
            found = subject(path)
            try:
                result = verb.do(found, **known)
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

        body = msgspec.defstruct(
            name.title().replace("_", ""),
            [*map(_declared, declared)],
            bases=(Fields,),
            namespace={"__doc__": f"Fields of {name}.", "one_of": alternatives},
            kw_only=True,
        )
        handle.__name__, handle.__doc__ = name, opening(verb.do)
        result = answer or get_type_hints(verb.do)["return"]
        handle.__annotations__ = {"path": path_type, "body": body, "return": result}
        refuses = (404, 409) if verbs.names else (409,)
        return Operation("POST", f"/v1/{verbs.path}/{verb.name}", handle, refuses)

    return [operation(each) for each in verbs.all()]


def _declared(field: Field) -> tuple[str, Any] | tuple[str, Any, Any]:
    kind: Any = field.kind
    match field.bound:
        case int(most):
            kind = Annotated[kind, Meta(max_length=most)]
        case range() as values:
            kind = Annotated[kind, Meta(ge=values[0], le=values[-1])]
        case tuple() as choices:
            kind = Literal[choices]
    default = field.default
    if field.is_alternative:
        kind, default = kind | UnsetType, UNSET
    elif field.is_nullable:
        kind = kind | None
    kind = Annotated[kind, Meta(description=field.text)]
    return (field.name, kind) if field.is_required else (field.name, kind, default)
