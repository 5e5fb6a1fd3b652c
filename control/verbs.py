"""Verbs: operations on a group, a node, the clock and so on, each declared once.

A verb is a method; its signature and its docstring are the declaration:

    @verb("{member} is removed from group {group}")
    def kick(self, member: MemberName | None = None, reason: Reason = "") -> MemberRow:
        \"\"\"Removes a member; the group rebalances.

Args:
            member: its member id, group.instance.id or client.id.
            reason: the reason, for the events and `kohort why`.
        \"\"\"

Made from it are:

- the HTTP route, its checks and its part of the OpenAPI document
  (`kohort.control.http.verb_routes`);
- the command with its help (`kohort.control.commands.of_verbs`), which needs the
  declaration without the broker. So this module and the ones with verbs load quickly;
- the handle of the pytest plugin (`kohort.testing.group`), which calls the method in
  the broker's thread.

A condition is declared likewise, with `@condition`: its method waits, its HTTP request
is a GET whose query has the fields, and its command has an option for each.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from itertools import dropwhile, takewhile
from types import NoneType, SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Concatenate,
    Final,
    NamedTuple,
    ParamSpec,
    TypeVar,
    Unpack,
)

from kohort.control.power import PowerError

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")

MOST_CHARACTERS: Final = 1_000
"""The longest name in a request. Kafka's group ids may have 32,767 characters, which no
URL takes."""

Name = Annotated[str, MOST_CHARACTERS]
Reason = Annotated[str, 255]
NodeId = Annotated[int, range(2**31)]
ENDLESS: Final = 2**63 - 1
Count = Annotated[int, range(ENDLESS + 1)]
Patience = Annotated[float, range(3_601)]
"""A text has a greatest length, or its values as a tuple; a number has a range; True
and False have no bound."""


PATIENCE_S: Final = 10.0
"""Default timeout of conditions: rebalances of real clients take milliseconds, and some
clients wait seconds between two attempts to join."""


class Later:
    """A module that is loaded when a verb is performed, not when it is declared."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        """An attribute of the module."""
        return getattr(importlib.import_module(self._name), name)


if TYPE_CHECKING:
    from kohort.broker.handlers import result_slot
    from kohort.broker.runtime import effects
else:
    effects = Later("kohort.broker.runtime.effects")
    result_slot = Later("kohort.broker.handlers.result_slot")


class Field(NamedTuple):
    """A parameter of a verb.

    Attributes:
        name: its name, the same for each door.
        kind: int, float, str or bool.
        bound: of its values, see `NodeId`.
        is_nullable: it may be None.
        default: `inspect.Parameter.empty` if it must be given.
        text: its part of the docstring.
        is_alternative: exactly one of the alternatives is given.
    """

    name: str
    kind: type
    bound: int | range | tuple[str, ...] | None
    is_nullable: bool
    default: Any
    text: str
    is_alternative: bool

    @property
    def is_required(self) -> bool:
        """True if it must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it may have; empty: too many."""
        return self.bound if isinstance(self.bound, tuple) else ()


class Verb(NamedTuple):
    """A declared operation.

    Attributes:
        do: the method.
        done: see `verb`.
    """

    do: Callable[..., Any]
    done: str | Callable[[Mapping[str, Any]], str]

    @property
    def name(self) -> str:
        """The name of the method, and the end of the path."""
        return self.do.__name__

    def sentence(self, known: Mapping[str, Any]) -> str:
        """The sentence that the command prints.

        Args:
            known: the fields of the request and of the answer.
        """
        state = known.get("state")
        now = "it does not exist yet" if state == "Dead" else f"it is {state} now"
        known = {**known, "now": now}
        return self.done(known) if callable(self.done) else self.done.format_map(known)


def verb(done: str | Callable[[Mapping[str, Any]], str]) -> Callable[[F], F]:
    """Declares a method as a verb.

    Args:
        done: the sentence that the command prints: a format or a function. It has the
            fields of the request and of the answer, and `now`, the state of a group or
            a transaction in words.
    """

    def declare(method: F) -> F:
        vars(method)["verb"] = Verb(method, done)
        return method

    return declare


def condition(method: F) -> F:
    """Declares a method as a condition: it returns a coroutine that waits."""
    vars(method)["condition"] = Verb(method, "")
    return method


class Verbs:
    """The verbs on one kind of things, and the conditions.

    Attributes:
        what: a word for the thing.
        path: its path below /v1, with names in braces.
        names: the types of the names in the path, in order.
    """

    what: str
    path: str
    names: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def all(cls) -> list[Verb]:
        """The verbs, in order."""
        return [each.verb for each in vars(cls).values() if hasattr(each, "verb")]

    @classmethod
    def conditions(cls) -> list[Verb]:
        """The conditions, in order."""
        found = vars(cls).values()
        return [each.condition for each in found if hasattr(each, "condition")]

    def show(self) -> Any:
        """The thing as a row; conditions answer it."""
        raise NotImplementedError

    @property
    def exists(self) -> bool:
        """False: a refusal says that there is no thing with this name."""
        return True


class CoordinatedVerbs(Verbs):
    """The verbs on one kind of things, which have a coordinator.

    Attributes:
        key: the name of its name, an attribute.
    """

    key: str

    def _submit(self, command: Any) -> None:
        """Passes a command to the coordinator."""
        raise NotImplementedError

    def _move(self, node: int | None) -> int:
        """Makes a node, or the next one, the coordinator."""
        raise NotImplementedError

    def _refused(self, why: str) -> PowerError:
        return PowerError(f"{self.what} {getattr(self, self.key)!r}: {why}")

    def _perform(
        self,
        kind: Callable[Concatenate[object, str, P], object],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Has the coordinator perform a command; raises its refusal."""
        slot = result_slot.ResultSlot()
        self._submit(kind(slot, getattr(self, self.key), *args, **kwargs))
        assert isinstance(slot.result, effects.CommandResult)
        if slot.result.refusal is not None:
            raise self._refused(slot.result.refusal)


# -- reading a declaration

_SECTIONS: Final = frozenset({"Args:", "Attributes:", "Returns:", "Raises:"})


def opening(documented: object) -> str:
    """A docstring without its sections."""
    lines = (inspect.getdoc(documented) or "").splitlines()
    return "\n".join(takewhile(lambda line: line not in _SECTIONS, lines)).strip()


def described(documented: object) -> dict[str, str]:
    """Sentences about the arguments or attributes in a docstring, by name."""
    found: dict[str, str] = {}
    names: list[str] = []
    lines = (inspect.getdoc(documented) or "").splitlines()
    for line in dropwhile(lambda line: line not in _SECTIONS, lines):
        if line.startswith("     "):
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
        elif line.startswith("    "):
            first, _, text = line.strip().partition(": ")
            names = first.split(", ")
            found |= dict.fromkeys(names, text[:1].upper() + text[1:])
        elif found:
            break
    return found


def fields(method: Callable[..., Any]) -> Iterator[Field]:
    """The parameters of a verb, in order."""
    texts = described(method)
    _, *parameters = inspect.signature(method).parameters.values()
    # Not that of the result, which only the broker has.
    hints = _hints({each.name: each.annotation for each in parameters}, method)
    has_others = any(typing.get_origin(hint) is Unpack for hint in hints.values())
    for place, each in enumerate(parameters):
        hint = hints[each.name]
        if typing.get_origin(hint) is Unpack:
            (names,) = typing.get_args(hint)
            more = described(names)
            for name, kind in _hints(names.__annotations__, names).items():
                yield _field(name, kind, None, more[name], is_alternative=True)
        else:
            yield _field(
                each.name,
                hint,
                each.default,
                texts[each.name],
                is_alternative=has_others and not place,
            )


def _hints(annotations: Mapping[str, Any], of: Any) -> dict[str, Any]:
    wanted = SimpleNamespace(__annotations__=annotations)
    space = vars(sys.modules[of.__module__])
    return typing.get_type_hints(wanted, space, include_extras=True)


def _field(
    name: str, hint: Any, default: Any, text: str, *, is_alternative: bool
) -> Field:
    arms = typing.get_args(hint)
    is_nullable = NoneType in arms
    kind, bound = typing.get_args(arms[0]) if is_nullable else arms or (hint, None)
    return Field(name, kind, bound, is_nullable, default, text, is_alternative)
