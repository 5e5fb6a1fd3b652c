"""Values of a scenario as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[\w-]+", re.ASCII).fullmatch


def toml_of(values: Mapping[str, Any]) -> str:
    """TOML with these values: keys first, then tables, then lists of tables."""
    return "\n".join(_lines((), values)).lstrip("\n") + "\n"


def _lines(path: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[str]:
    tables, lists = {}, {}
    for key, value in values.items():
        if isinstance(value, Mapping) and not is_distribution(key):
            tables[key] = value
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            lists[key] = value
        else:
            yield f"{_key(key)} = {value_of(value)}"
    for key, table in tables.items():
        own = (*path, key)
        lines = [*_lines(own, table)]
        if lines and not lines[0].startswith("\n"):
            yield f"\n[{'.'.join(map(_key, own))}]"
        yield from lines
    for key, rows in lists.items():
        for row in rows:
            yield f"\n[[{'.'.join(map(_key, (*path, key)))}]]"
            yield from (f"{_key(k)} = {value_of(v)}" for k, v in row.items())


def is_distribution(key: str) -> bool:
    """Returns whether a table is a value, as ``{median = 1, p99 = 2}`` of a time."""
    return key.endswith(("_ms", "_s")) or key in {"ms", "seconds"}


def _key(key: str) -> str:
    return key if _BARE(key) else json.dumps(key)


def value_of(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, Mapping):
        pairs = (f"{_key(key)} = {value_of(each)}" for key, each in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(value_of, value))}]"
    # Texts, numbers and booleans of JSON are TOML's, too.
    return json.dumps(value, ensure_ascii=False)
