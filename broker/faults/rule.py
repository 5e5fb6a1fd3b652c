"""One rule: a selector, a trigger and an effect, in TOML, JSON or Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kohort.broker.coordinator.state import GroupState
from kohort.broker.faults.kafka_errors import notes_on_error
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import BY_NAME

LONGEST_MS: Final = 24 * 60 * 60 * 1000
"""The longest delay: a day, which no test waits for."""


class FaultError(ValueError):
    """An invalid rule; the message names the key."""


class UnknownFaultError(LookupError):
    """No rule has this id; the message lists the rules."""


# -- the values of keys


def _shown(value: Any) -> str:
    """A value for a message, shortened."""
    try:
        return repr(value)[:_LONGEST]
    except ValueError:
        return "a number of thousands of digits"


def _of_type(key: str, value: Any, kind: type, name: str) -> Any:
    is_wrong = isinstance(value, bool) is not (kind is bool)
    if is_wrong or not isinstance(value, kind):
        raise FaultError(f"{key}: {_shown(value)} is not {name}")
    return value


class Text(NamedTuple):
    """Any text of up to `most` characters."""

    most: int

    def check(self, key: str, value: Any) -> str:
        """Returns the value; raises `FaultError`."""
        text = str(_of_type(key, value, str, "a string"))
        if len(text) > self.most:
            raise FaultError(f"{key}: is longer than {self.most} characters")
        return text


class Flag(NamedTuple):
    """True; leaving it out means False."""

    def check(self, key: str, value: Any) -> bool:
        """Returns the value; raises `FaultError`."""
        if _of_type(key, value, bool, "true") is not True:
            raise FaultError(f"{key}: leave it out in place of false")
        return True


class Whole(NamedTuple):
    """A whole number from `least` to `most`."""

    least: int
    most: int

    def check(self, key: str, value: Any) -> int:
        """Returns the value; raises `FaultError`."""
        number = int(_of_type(key, value, int, "a whole number"))
        if number < self.least:
            raise FaultError(f"{key}: {_shown(number)} is less than {self.least}")
        if number > self.most:
            raise FaultError(f"{key}: {_shown(number)} is more than {self.most}")
        return number


class Number(NamedTuple):
    """A number above 0 and up to `most`."""

    most: float

    def check(self, key: str, value: Any) -> float:
        """Returns the value; raises `FaultError`."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FaultError(f"{key}: {_shown(value)} is not a number")
        if not 0 < value <= self.most:
            raise FaultError(
                f"{key}: {_shown(value)} is not above 0 and at most {self.most:g}"
            )
        return value


FEW: Final = 5
"""Names listed in full beside an unknown one."""


class Name(NamedTuple):
    """One of a set of names."""

    known: tuple[str, ...]

    def check(self, key: str, value: Any) -> str:
        """Returns the value; raises `FaultError`."""
        name = str(_of_type(key, value, str, "a string"))
        if name not in self.known:
            from difflib import get_close_matches

            upper = [each.upper() for each in self.known]
            close = get_close_matches(name[:_LONGEST].upper(), upper, 3)
            likely = [each for each in self.known if each.upper() in close]
            likely = likely if len(self.known) > FEW else []
            there_are = ", ".join(likely or self.known)
            word = "did you mean" if likely else "there are"
            raise FaultError(f"{key}: there is no {_shown(name)}; {word}: {there_are}")
        return name


class Names(NamedTuple):
    """One name or a list of names; its final form is a tuple."""

    each: Name

    def check(self, key: str, value: Any) -> tuple[str, ...]:
        """Returns the value's final form; raises `FaultError`."""
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not names:
            raise FaultError(
                f"{key}: {_shown(value)} is not the name of an API, or a list"
            )
        return tuple(dict.fromkeys(self.each.check(key, name) for name in names))


Check = Text | Flag | Whole | Number | Name | Names
"""The values that a key may have."""

_LONGEST: Final = 255
"""Characters of a name; each strike's event contains it."""
_TEXT: Final = Text(1_000)
_INT: Final = 2**31 - 1
_LONG: Final = 2**63 - 1
_MS: Final = Number(LONGEST_MS)
SEED: Final = Whole(0, _LONG)
"""The seed of a rule, and of a plan."""

CONNECTION_SELECTORS: Final = frozenset({"client_id", "software", "connection", "node"})
"""Selectors of connections, for the effects that concern no single request."""
SELECTORS: Final[Mapping[str, Check]] = {
    "api": Names(Name(tuple(sorted(BY_NAME)))),
    "version": Whole(0, 2**15 - 1),
    "group": _TEXT,
    "transactional_id": _TEXT,
    "member_id": _TEXT,
    "instance_id": _TEXT,
    "client_id": _TEXT,
    "software": _TEXT,
    "connection": Whole(1, _LONG),
    "topic": _TEXT,
    "partition": Whole(0, _INT),
    "node": Whole(0, _INT),
    "state": Name(tuple(state.value for state in GroupState)),
}
TRIGGERS: Final[Mapping[str, Check]] = {
    "once": Flag(),
    "nth": Whole(1, _LONG),
    "times": Whole(1, _LONG),
    "every": Whole(1, _LONG),
    "probability": Number(1),
}
EFFECTS: Final[Mapping[str, Check]] = {
    "error": Name(tuple(code.name for code in ErrorCode if code)),
    "delay_ms": _MS,
    "disconnect": Name(("before", "after")),
    "swallow": Flag(),
    "throttle_ms": Whole(1, LONGEST_MS),
    "duplicate": Flag(),
    "stale": Flag(),
    "corrupt": Flag(),
    "truncate": Flag(),
    "trickle_ms": _MS,
    "black_hole": Flag(),
    "jitter_ms": _MS,
}
OF_CONNECTIONS: Final = frozenset({"black_hole", "jitter_ms"})
"""Effects on everything that a connection sends and receives."""
KEYS: Final[Mapping[str, Check]] = {
    "name": Text(_LONGEST),
    **SELECTORS,
    **TRIGGERS,
    "for_seconds": Number(LONGEST_MS / 1000),
    "seed": SEED,
    **EFFECTS,
}
"""The values of each key."""


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Rule:
    """A fault: selected requests, a trigger, and an effect.

        Rule(api="OffsetCommit", group="billing", times=2, error="NOT_COORDINATOR")

    Keys that are None are not set. ``docs/reference/faults.md`` explains each key.

    Attributes:
        id: its number in the plan, from 1 on; 0 before it is added.
        matches: number of requests selected so far; for effects on connections, of
            connections.
        strikes: number of those that it has struck.
        is_over: ``for_seconds`` have passed; it strikes no more.

    Raises:
        FaultError: a value is invalid, or the keys cannot be combined.
    """

    name: str | None = None
    api: tuple[str, ...] | str | None = None
    version: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    software: str | None = None
    connection: int | None = None
    topic: str | None = None
    partition: int | None = None
    node: int | None = None
    state: str | None = None
    once: bool | None = None
    nth: int | None = None
    times: int | None = None
    every: int | None = None
    probability: float | None = None
    for_seconds: float | None = None
    seed: int | None = None
    error: str | None = None
    delay_ms: float | None = None
    disconnect: str | None = None
    swallow: bool | None = None
    throttle_ms: int | None = None
    duplicate: bool | None = None
    stale: bool | None = None
    corrupt: bool | None = None
    truncate: bool | None = None
    trickle_ms: float | None = None
    black_hole: bool | None = None
    jitter_ms: float | None = None
    id: int = dataclasses.field(default=0, init=False)
    matches: int = dataclasses.field(default=0, init=False)
    strikes: int = dataclasses.field(default=0, init=False)
    is_over: bool = dataclasses.field(default=False, init=False)

    def __post_init__(self) -> None:
        for key, value in self._given():
            setattr(self, key, KEYS[key].check(key, value))
        self._only_one(EFFECTS, "effect", least=1)
        self._only_one(TRIGGERS, "trigger", least=0)
        if self.effect in OF_CONNECTIONS:
            self._refuse_selectors()

    def __repr__(self) -> str:
        """Its keys, as they were given, and its counts."""
        given = [f"{key}={value!r}" for key, value in self.to_dict().items()]
        counts = f"matches={self.matches}, strikes={self.strikes}"
        return f"Rule({', '.join(given)}, {counts})"

    def _given(self) -> list[tuple[str, Any]]:
        values = ((key, getattr(self, key)) for key in KEYS)
        return [(key, value) for key, value in values if value is not None]

    def _only_one(self, keys: Mapping[str, Check], what: str, least: int) -> None:
        given = [key for key, _ in self._given() if key in keys]
        if len(given) > 1:
            raise FaultError(f"{' and '.join(given)}: a rule has one {what}")
        if len(given) < least:
            raise FaultError(f"a rule needs an {what}, one of: {', '.join(keys)}")

    def _refuse_selectors(self) -> None:
        for key, _ in self._given():
            if key in TRIGGERS or (
                key in SELECTORS and key not in CONNECTION_SELECTORS
            ):
                raise FaultError(
                    f"{key}: {self.effect} strikes all of a connection; it goes with"
                    f" {', '.join(sorted(CONNECTION_SELECTORS))} and for_seconds"
                )

    @classmethod
    def from_dict(cls, keys: Mapping[str, Any]) -> Rule:
        """Reads a rule from a JSON object, or a TOML table.

        Raises:
            FaultError: a key is unknown, or as for the class.
        """
        known = Name(tuple(KEYS))
        for key in keys:
            known.check(str(key)[:_LONGEST], key)
        return cls(**keys)

    def to_dict(self) -> dict[str, Any]:
        """The keys that are set, as `from_dict` takes them."""
        given = dict(self._given())
        if self.api is not None:
            given["api"] = self.api[0] if len(self.api) == 1 else [*self.api]
        return given

    def describe(self) -> dict[str, Any]:
        """The rule with its id, its counts and its notes, as JSON."""
        return {
            "id": self.id,
            **self.to_dict(),
            "matches": self.matches,
            "strikes": self.strikes,
            "is_over": self.is_over,
            "notes": [*self.notes],
        }

    @property
    def label(self) -> str:
        """Its name; if it has none, its number."""
        return self.name or f"fault {self.id}"

    @property
    def effect(self) -> str:
        """The key of its effect."""
        return next(key for key in EFFECTS if getattr(self, key) is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the rule, where its effects never occur in Kafka."""
        apis = self.api or ()
        notes = []
        if self.error is not None:
            notes += notes_on_error(apis, self.error)
        if self.throttle_ms is not None:
            notes += [
                f"{name} has no throttle time in any version: the connection is held"
                " back, and the client does not know for how long"
                for name in apis
                if not hasattr(BY_NAME[name].response_class, "throttle_time_ms")
            ]
        return tuple(notes)
