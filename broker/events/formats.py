"""The event schema in other formats: JSON Schema, Spark, Python types, and the docs.

    python -m kohort.broker.events.formats

writes ``docs/reference/events.schema.json``, the tables of
``docs/reference/events.md``, and ``broker/events/types.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from kohort.broker.events.fields import Field, Kind, Type
from kohort.broker.events.schema import COMMON, KINDS, ROWS, SCHEMA_VERSION

BEGIN = "<!-- begin: python -m kohort.broker.events.formats -->"
END = "<!-- end -->"

_JSON: dict[Type, dict[str, Any]] = {
    "string": {"type": "string"},
    "int": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "long": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "boolean": {"type": "boolean"},
    "map": {"type": "object", "additionalProperties": {"type": "string"}},
}

_SPARK: dict[Type, Any] = {
    "string": "string",
    "int": "integer",
    "long": "long",
    "boolean": "boolean",
    "map": {
        "type": "map",
        "keyType": "string",
        "valueType": "string",
        "valueContainsNull": False,
    },
}


def _element(type_: Type) -> Type | None:
    """The type of a list's elements; None for another type."""
    return type_[1:-1] if type_.startswith("[") else None


# -- JSON Schema


def json_schema() -> dict[str, Any]:
    """One event as JSON Schema (draft 2020-12).

    Unknown kinds and fields are valid, as later versions may add some.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of a kohort broker",
        "type": "object",
        **_object(COMMON),
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind.name}}},
                "then": {"description": kind.says, **_of_kind(kind)},
            }
            for kind in KINDS
        ],
        "$defs": {
            name: {"type": "object", **_object(fields)} for name, fields in ROWS.items()
        },
    }


def _object(fields: Sequence[Field]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "properties": {field.name: _json(field) for field in fields},
        "required": [field.name for field in fields if not field.may_be_null],
    }
    if "schema" in said["properties"]:
        said["properties"]["schema"]["const"] = SCHEMA_VERSION
    return said


def _of_kind(kind: Kind) -> dict[str, Any]:
    said = _object(kind.fields)
    if kind.causes:
        said["properties"]["cause"] = {"enum": [*kind.causes]}
        said["required"].append("cause")
    return said


def _json(field: Field) -> dict[str, Any]:
    said = _json_type(field.type)
    if field.words:
        said = {**said, "enum": [*field.words]}
    if field.may_be_null:
        said = {"anyOf": [said, {"type": "null"}]}
    return {**said, "description": field.says}


def _json_type(type_: Type) -> dict[str, Any]:
    element = _element(type_)
    if element is not None:
        return {"type": "array", "items": _json_type(element)}
    if type_ in ROWS:
        return {"$ref": f"#/$defs/{type_}"}
    return _JSON[type_]


# -- Spark


def wide() -> list[Field]:
    """Every field of every kind, each once: the columns of one wide table.

    Only the fields of `COMMON` are never null.
    """
    fields = {field.name: field for field in COMMON}
    for kind in KINDS:
        for each in kind.fields:
            fields.setdefault(each.name, Field(each.name, each.type, each.says))
    return [*fields.values()]


def spark_schema() -> dict[str, Any]:
    """The wide table, as ``StructType.fromJson`` of Spark takes it."""
    return _struct(wide())


def _struct(fields: Iterable[Field]) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {
                "name": field.name,
                "type": _spark_type(field.type),
                "nullable": field.may_be_null,
                "metadata": {"comment": field.says},
            }
            for field in fields
        ],
    }


def _spark_type(type_: Type) -> Any:
    element = _element(type_)
    if element is not None:
        spark = _spark_type(element)
        return {"type": "array", "elementType": spark, "containsNull": False}
    return _struct(ROWS[type_]) if type_ in ROWS else _SPARK[type_]


# -- types of Python


def python_types() -> str:
    """The source of `kohort.broker.events.types`."""
    parts = [_TYPES_HEAD]
    parts += [_class(_row_class(name), fields) for name, fields in ROWS.items()]
    of_kind = {"kind", "cause"}
    common = [field for field in COMMON if field.name not in of_kind]
    parts.append(_class("Common", common))
    for kind in KINDS:
        kind_field = f"    kind: {_literal([kind.name])}\n"
        cause = _literal([*kind.causes]) if kind.causes else "NotRequired[None]"
        said = f"{kind_field}    cause: {cause}\n"
        parts.append(_class(_class_name(kind.name), kind.fields, "Common", said))
    names = [kind.name for kind in KINDS]
    parts.append(f"EventKind: TypeAlias = {_literal(names, indent=0)}\n")
    union = "\n    | ".join(map(_class_name, names))
    parts.append(f"Event: TypeAlias = (\n    {union}\n)\n")
    return "\n\n".join(parts)


_TYPES_HEAD = '''\
"""Types of events, a TypedDict for each kind; type checkers narrow by `kind`.

Generated from `kohort.broker.events.schema` by

    python -m kohort.broker.events.formats

At run time an event is a dict. A field that is NotRequired may be null or missing.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias, TypedDict
'''

_PYTHON: dict[Type, str] = {
    "string": "str",
    "int": "int",
    "long": "int",
    "boolean": "bool",
    "map": "dict[str, str]",
}


def _class_name(name: str) -> str:
    return "".join(map(str.capitalize, name.split("_")))


def _row_class(name: str) -> str:
    return f"{_class_name(name)}Row"


def _class(
    name: str, fields: Iterable[Field], base: str = "TypedDict", first: str = ""
) -> str:
    lines = (f"    {field.name}: {_python(field)}\n" for field in fields)
    return f"class {name}({base}):\n{first}{''.join(lines)}"


def _python(field: Field) -> str:
    if not field.words:
        said = _python_type(field.type)
        return f"NotRequired[{said} | None]" if field.may_be_null else said
    if not field.may_be_null:
        return _literal([*field.words])
    words = _literal([*field.words], indent=8)
    return f"NotRequired[\n        {words}\n        | None\n    ]"


def _python_type(type_: Type) -> str:
    element = _element(type_)
    if element is not None:
        return f"list[{_python_type(element)}]"
    return _row_class(type_) if type_ in ROWS else _PYTHON[type_]


def _literal(words: Sequence[str], indent: int = 4) -> str:
    if len(words) == 1:
        return f'Literal["{words[0]}"]'
    rows = "".join(f'{" " * indent}    "{word}",\n' for word in words)
    return f"Literal[\n{rows}{' ' * indent}]"


# -- the page


def tables() -> str:
    """The tables of ``docs/reference/events.md``."""
    parts = ["## Fields of every event", "", *_table(COMMON)]
    parts += ["", "## Rows", "", "Elements of list fields.", ""]
    for name, fields in ROWS.items():
        parts += [f"### `{name}`", "", *_table(fields), ""]
    parts += ["## Kinds", ""]
    for kind in KINDS:
        parts += [f"### `{kind.name}`", "", kind.says, ""]
        if kind.causes:
            parts += ["| cause | meaning |", "| --- | --- |"]
            parts += [f"| `{cause}` | {says} |" for cause, says in kind.causes.items()]
            parts.append("")
        if kind.fields:
            parts += [*_table(kind.fields), ""]
    return "\n".join(parts).rstrip() + "\n"


def _table(fields: Iterable[Field]) -> list[str]:
    rows = [
        f"| `{field.name}` | {field.type}{' or null' if field.may_be_null else ''}"
        f" | {field.says}{_words(field)} |"
        for field in fields
    ]
    return ["| field | type | meaning |", "| --- | --- | --- |", *rows]


def _words(field: Field) -> str:
    if not field.words:
        return ""
    told = (f"`{word}`: {says}" for word, says in field.words.items())
    return f": {'; '.join(told)}"


def page(text: str) -> str:
    """A page with the tables in place of the text between `BEGIN` and `END`."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{tables()}\n{END}{tail}"


def main(docs: Path) -> None:
    """Writes the files of the documents, and the types, anew."""
    types = Path(__file__).with_name("types.py")
    types.write_text(python_types(), encoding="utf-8")
    schema = json.dumps(json_schema(), indent=2)
    (docs / "events.schema.json").write_text(f"{schema}\n", encoding="utf-8")
    path = docs / "events.md"
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path("docs/reference"))
