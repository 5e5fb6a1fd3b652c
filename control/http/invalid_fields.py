"""Sentences about fields of a request that msgspec refuses."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

_TYPES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
}
_EXPECTED: Final = re.compile(
    r"Expected `([^`]+)`(?:( of length)? ([<>])= (\S+))?(?:, got `\w+`)?"
)
_MISSING: Final = re.compile(r"Object missing required field `(.+)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.+)`", re.DOTALL)


def sentence(what: str, kind: Any, problem: str) -> str:
    """Describes an invalid request, with the fields or values that exist.

    Args:
        what: "body" or "query".
        kind: its type: a struct of msgspec, or an object with any fields.
        problem: msgspec's message.
    """
    text, _, place = problem.partition(" - at `$.")
    field = place.removesuffix("`")
    fields = ", ".join(getattr(kind, "__struct_encode_fields__", ())) or "none"
    if found := _EXPECTED.fullmatch(text):
        types, length, bound, number = found.groups()
        must_be = " or ".join(_TYPES.get(each, each) for each in types.split(" | "))
        if bound:
            number = number.removesuffix(".0")
            must_be = f"at {'least' if bound == '>' else 'most'} {number}"
            must_be += " characters long" if length else ""
        return f"{field or f'the {what}'} must be {must_be}"
    if text.startswith("Invalid enum value"):
        values = ", ".join(_values(get_type_hints(kind)[field]))
        return f"{field} must be one of {values}"
    if found := _MISSING.fullmatch(text):
        return f"the {what} needs {found[1]}; its fields are: {fields}"
    if found := _UNKNOWN.fullmatch(text):
        return f"the {what} has no field {found[1]!r}; its fields are: {fields}"
    return f"the {what}: {text[0].lower()}{text[1:]}; its fields are: {fields}"


def _values(hint: Any) -> list[str]:
    """The values of the enum or the literal in a type, or in a union."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [each.value for each in hint]
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [value for part in get_args(hint) for value in _values(part)]
