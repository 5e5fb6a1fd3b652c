"""Prints a difference as text: each step, and both brokers' responses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.conformance.differential.lockstep import Moment, Played

NAMES = ("reference", "broker")


def told(played: Played, outcomes: Counter[str] | None) -> Iterator[str]:
    """The lines of a difference.

    Args:
        played: ends with it.
        outcomes: outcomes of the reference with the same requests alone, and their
            number; None if requests were sent one after the other.
    """
    for number, moment in enumerate(played.moments, 1):
        yield f"  {number}. {_sent(moment)}"
        yield from _answers(moment)
    last = played.moments[-1]
    if last.states[0] != last.states[1]:
        yield from _different("state", last.states)
    if outcomes is not None:
        yield f"  not seen in {outcomes.total()} runs on the reference; it did"
        for outcome, count in outcomes.most_common(4):
            _, answers, state = json.loads(outcome)
            yield f"    {count} times: {_short(answers)}; {_short(state)}"


def _sent(moment: Moment) -> str:
    together = " | ".join(moment.sent)
    return f"together: {together}" if len(moment.sent) > 1 else together


def _answers(moment: Moment) -> Iterator[str]:
    for label, shown in moment.answers.items():
        if shown[0] == shown[1]:
            yield f"       {label}: {_short(shown[0])}"
        else:
            yield from _different(label, shown)


def _different(label: str, shown: list[Any]) -> Iterator[str]:
    yield f"     ! {label} differs"
    for name, each in zip(NAMES, shown, strict=True):
        yield f"         {name:9} {_short(each)}"
    if all(isinstance(each, dict) for each in shown):
        for path, here, there in _fields(*shown):
            yield f"         {path}: reference {here}, broker {there}"


def _fields(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """The fields that differ: (where, here, there)."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            below = f"{path}.{key}" if path else key
            yield from _fields(one.get(key), other.get(key), below)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (here, there) in enumerate(zip(one, other, strict=True)):
            yield from _fields(here, there, f"{path}[{number}]")
    elif one != other:
        yield path, json.dumps(one), json.dumps(other)


def _short(shown: Any) -> str:
    """Without fields of no interest."""
    return json.dumps(_telling(shown))


def _telling(shown: Any) -> Any:
    if isinstance(shown, list):
        return [_telling(each) for each in shown]
    if not isinstance(shown, dict):
        return shown
    kept = {k: _telling(v) for k, v in shown.items()}
    return {k: v for k, v in kept.items() if v not in (None, [], {}, "", 0, -1)}
