"""The source of a generated function while it is written."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kohort.protocol.generated_calls import PIECE


class GeneratedSource:
    """Lines of a function, their indentation, and the constants that they use.

    Args:
        scope: the function's globals.
        is_generator: whether the function works in pieces.

    Attributes:
        lines: the lines so far.
        depth: the current depth of indentation.
        scope: see Args.
        is_generator: see Args.
    """

    def __init__(self, scope: dict[str, Any], *, is_generator: bool) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.scope = scope
        self.is_generator = is_generator
        self._names = 0

    def add(self, line: str) -> None:
        """Adds a line at the current depth."""
        self.lines.append("    " * self.depth + line)

    def whole(self, line: str) -> None:
        """Adds a line that only the plain function has."""
        if not self.is_generator:
            self.add(line)

    def in_pieces(self, *lines: str) -> None:
        """Adds lines that only the generator has."""
        if self.is_generator:
            for line in lines:
                self.add(line)

    def pause(self) -> None:
        """Adds a point in a loop where the generator may yield."""
        self.in_pieces("if left > 0: left -= 1", f"else: left = {PIECE}; yield")

    def spend(self, count: str) -> None:
        """Adds the check of the number of items that a generator may decode."""
        self.in_pieces(f"spent += {count}", "if spent > MOST_ITEMS: too_many_items()")

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indents the lines added in this context by one more level."""
        self.depth += 1
        yield
        self.depth -= 1

    def name(self, prefix: str = "v") -> str:
        """A new variable."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, name: str, value: Any) -> str:
        """The name of a value in the function's globals: this one or a similar one."""
        while self.scope.setdefault(name, value) is not value:
            name += "_"
        return name

    def literal(self, value: Any) -> str:
        """An expression for a default: for a struct, one shared object."""
        if value is None or isinstance(value, (bool, int, str, bytes, float)):
            return repr(value)
        return (
            "()" if value == () else self.constant(f"no_{type(value).__name__}", value)
        )

    def structure(self, prefix: str, fmt: str) -> str:
        """A name for ``unpack_from`` or ``pack`` of a struct format."""
        name = f"{prefix}_{fmt.replace('?', 't')}"
        if name not in self.scope:
            compiled = struct.Struct(f">{fmt}")
            self.scope[name] = (
                compiled.unpack_from if prefix == "unpack" else compiled.pack
            )
        return name
