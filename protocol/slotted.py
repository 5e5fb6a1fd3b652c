"""One decorator for every value that kohort passes around: messages, events, effects.

A class of annotated fields becomes a class with slots and a positional constructor. To
the type checker it is frozen. At run time it is frozen only if ``KOHORT_FROZEN`` is set
in the environment when the class is created (the tests set it): a frozen dataclass pays
``object.__setattr__`` per field, four times the cost of a plain slot, and messages are
built for every request.
"""

from __future__ import annotations

import os
import typing
from typing import Any, TypeVar

T = TypeVar("T")

FROZEN = bool(os.environ.get("KOHORT_FROZEN"))


class FrozenError(AttributeError):
    """A field of a slotted value was assigned after construction."""


def _equal(self: Any, other: Any) -> Any:
    if self.__class__ is not other.__class__:
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


def _shown(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{type(self).__name__}({fields})"


def _state(self: Any) -> tuple[Any, ...]:
    return type(self), tuple(getattr(self, name) for name in self.__slots__)


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise FrozenError(f"{type(self).__name__}.{name} is read-only")


def _constructor(names: tuple[str, ...], defaults: dict[str, Any]) -> Any:
    """An ``__init__`` that takes the fields in order, by position or by name."""
    parameters = ", ".join(f"{n}=_d_{n}" if n in defaults else n for n in names)
    assign = "_set(self, {0!r}, {0})" if FROZEN else "self.{0} = {0}"
    body = "\n ".join(assign.format(n) for n in names) or "pass"
    scope: dict[str, Any] = {f"_d_{n}": v for n, v in defaults.items()}
    scope["_set"] = object.__setattr__
    exec(f"def __init__(self, {parameters}):\n {body}", scope)
    return scope["__init__"]


class _Init:
    """Makes the ``__init__`` of a class when it is first used.

    Compiling it takes longer than making the class, and most programs use few classes.
    """

    __slots__ = ("cls", "defaults", "names")
    cls: type

    def __init__(self, names: tuple[str, ...], defaults: dict[str, Any]) -> None:
        self.names = names
        self.defaults = defaults

    def __get__(self, instance: object, _: type) -> Any:
        made = _constructor(self.names, self.defaults)
        self.cls.__init__ = made  # type: ignore[misc]  # the next use finds it there
        return made if instance is None else made.__get__(instance)


@typing.dataclass_transform(frozen_default=True)
def slotted(cls: type[T]) -> type[T]:
    """Turns an annotated class into a slotted value class that mypy considers frozen.

    Fields are the annotations in order; a value in the class body is the default.
    Instances compare by type and fields, and are not hashable.
    """
    names = tuple(cls.__annotations__)
    body = {k: v for k, v in vars(cls).items() if k not in {"__dict__", "__weakref__"}}
    defaults = {n: body.pop(n) for n in names if n in body}
    init = _Init(names, defaults)
    body |= {
        "__qualname__": cls.__qualname__,
        "__slots__": names,
        "__match_args__": names,
        "__init__": init,
        "__eq__": _equal,
        "__hash__": None,
        "__repr__": body.get("__repr__", _shown),
        "__reduce__": _state,
    }
    if FROZEN:
        body["__setattr__"] = body["__delattr__"] = _refuse
    metaclass: Any = type(cls)
    made: type[T] = metaclass(cls.__name__, cls.__bases__, body)
    init.cls = made
    return made


def replace(value: T, **changes: Any) -> T:
    """A copy of a slotted value with some fields changed."""
    names: tuple[str, ...] = type(value).__slots__  # type: ignore[attr-defined]
    return type(value)(
        *(changes[n] if n in changes else getattr(value, n) for n in names)
    )
