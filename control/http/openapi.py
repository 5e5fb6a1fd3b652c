"""The OpenAPI document (3.1) of operations, from their declarations.

https://spec.openapis.org/oas/v3.1.1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from http import HTTPStatus
from typing import Any, Final, TypedDict, get_args, get_type_hints, is_typeddict

import msgspec

from kohort.control.http.operations import Fields, Operation, is_struct
from kohort.control.verbs import described, opening

JSON: Final = "application/json"
REFERENCE: Final = "#/components/schemas/{name}"

OF_ALL: Final = (400, 403)
"""Statuses with which any operation may be refused."""
OF_BODIES: Final = (413, 415)
"""Statuses of operations with a body."""

REFUSALS: Final = {
    400: "A parameter or the body is invalid.",
    401: "The token is missing or wrong.",
    403: "The Host is not this machine's loopback, or the Origin is another's.",
    404: "The path or the body names something unknown.",
    409: "It is impossible in the current state.",
    413: "The body is too long.",
    415: "The Content-Type is not application/json.",
    503: "Too many requests wait, the broker stops, or the group is being loaded.",
    504: "The request timed out.",
}
"""The meaning of each status."""


class Refusal(TypedDict):
    """The reason of a refusal, in one line."""

    error: str


def document(operations: Sequence[Operation], *, has_token: bool) -> dict[str, Any]:
    """Returns the OpenAPI document of operations, as JSON's types.

    Args:
        operations: in the order of the document.
        has_token: whether changes require a token.
    """
    # Loaded by the first request: brokers start sooner.
    from importlib.metadata import version

    used = [each.types.answer for each in operations]
    used += [each.types.body for each in operations if each.types.body is not None]
    (*_, refusal), schemas = msgspec.json.schema_components(
        [*dict.fromkeys(used), Refusal], ref_template=REFERENCE
    )
    for kind in {found for each in used for found in _declared(each)}:
        _describe(schemas[kind.__name__], kind)
    for each in operations:
        body = each.types.body
        if is_struct(body) and body.one_of:
            one_of = [{"required": [name]} for name in body.one_of]
            schemas[body.__name__]["oneOf"] = one_of
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        methods = paths.setdefault(each.path, {})
        methods[each.method.lower()] = _operation(each, has_token=has_token)
    statuses = {s for each in operations for s in _refusals(each, has_token=has_token)}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "kohort",
            "version": version("kohort"),
            "description": "Control of a Kafka broker for testing consumer groups.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {
                str(status): {
                    "description": REFUSALS[status],
                    "content": {JSON: {"schema": refusal}},
                }
                for status in sorted(statuses)
            },
        },
    }
    if has_token:
        schemes = {"token": {"type": "http", "scheme": "bearer"}}
        found["components"]["securitySchemes"] = schemes
    return found


def _declared(kind: Any) -> Iterator[type]:
    """The classes with fields in a type."""
    inner = get_args(kind)
    if is_dataclass(kind) or is_typeddict(kind) or is_struct(kind):
        yield kind
        inner = tuple(get_type_hints(kind).values())
    for each in inner:
        yield from _declared(each)


def _describe(schema: dict[str, Any], kind: type) -> None:
    """Puts the texts of a docstring into its schema."""
    fields = schema["properties"]
    schema["description"] = opening(kind)
    for base in kind.__mro__:
        for name, text in described(base).items():
            if name in fields:
                fields[name].setdefault("description", text.replace("None", "null"))
    if is_dataclass(kind):  # an answer has all of its fields
        schema["required"] = sorted(fields)
        for each in fields.values():
            each.pop("default", None)


def _operation(operation: Operation, *, has_token: bool) -> dict[str, Any]:
    types = operation.types
    summary, _, description = operation.text.partition("\n\n")
    made: dict[str, Any] = {
        "operationId": operation.handler.__name__,
        "summary": summary,
        "parameters": [
            *_parameters("path", types.path),
            *_parameters("query", types.query),
        ],
    }
    if description:
        made["description"] = description
    if types.body is not None:
        made["requestBody"] = {
            "required": _is_needed(types.body),
            "content": {JSON: {"schema": _schema(types.body)}},
        }
    if has_token and operation.method != "GET":
        made["security"] = [{"token": []}]
    made["responses"] = {
        str(operation.status): {
            "description": HTTPStatus(operation.status).phrase,
            "content": {JSON: {"schema": _schema(types.answer)}},
        },
    } | {
        str(status): {"$ref": f"#/components/responses/{status}"}
        for status in _refusals(operation, has_token=has_token)
    }
    return made


def _refusals(operation: Operation, *, has_token: bool) -> list[int]:
    """The statuses with which an operation may be refused."""
    found = {*OF_ALL, *operation.refuses}
    if "{" in operation.path:
        found.add(404)  # of names that no path has
    if operation.types.body is not None:
        found |= {*OF_BODIES}
    if has_token and operation.method != "GET":
        found.add(401)
    return sorted(found)


def _schema(kind: Any) -> dict[str, Any]:
    """A reference to the schema of a type."""
    ((found,), _) = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return found


def _parameters(place: str, kind: type[Fields]) -> list[dict[str, Any]]:
    """The parameters of a path or a query."""
    _, schemas = msgspec.json.schema_components([kind], ref_template="{name}")
    _describe(schemas[kind.__name__], kind)
    fields = schemas[kind.__name__]["properties"]
    return [
        {
            "name": name,
            "in": place,
            "required": name in _required(kind),
            "description": schema.pop("description", ""),
            "schema": schemas[schema["$ref"]] if "$ref" in schema else schema,
        }
        for name, schema in fields.items()
    ]


def _is_needed(body: Any) -> bool:
    """True if a body must be sent."""
    return not is_struct(body) or bool(_required(body) or body.one_of)


def _required(kind: type[Fields]) -> set[str]:
    return {each.encode_name for each in msgspec.structs.fields(kind) if each.required}


def describing(operations: Sequence[Operation], *, has_token: bool) -> Operation:
    """The operation that answers the document of others, and of itself.

    Args:
        operations: the others.
        has_token: whether changes require a token.
    """
    made: dict[str, Any] = {}

    async def show_document() -> dict[str, Any]:
        """Shows this document."""
        if not made:
            made.update(document([*operations, itself], has_token=has_token))
        return made

    itself = Operation("GET", "/v1/openapi.json", show_document)
    return itself
