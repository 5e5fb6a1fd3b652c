"""Reduces a scenario that fails to the smallest one that fails in the same way.

Values are those of its TOML file. Candidates are tried from the coarse to the fine, and
from the start again when one of them fails:

1. without some happenings and faults, a group, a topic;
2. with fewer members, partitions and nodes;
3. without keys that have a default;
4. with a shorter duration, and rounder times.
"""

from __future__ import annotations

import copy
import math
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kohort.simulation.checking.run import Finding, check
from kohort.simulation.scenario import reading
from kohort.simulation.scenario.model import parse
from kohort.simulation.scenario.reading import ScenarioError
from kohort.simulation.scenario.toml import is_distribution, toml_of

Values = Mapping[str, Any]

_NEEDED: Final = {"at", "do", "members", "partitions", "group", "topic"}
"""Keys that are not left out."""
_TIMES: Final = {"at", "seconds", "every"}
_ROWS: Final = ("happenings", "faults")


def find(name: str, values: Values, seed: int) -> Finding | None:
    """Plays a scenario with all checks; None also if its values have a mistake."""
    try:
        return check(parse(name, values), seed)
    except ScenarioError:
        return None


def shrink(
    name: str, values: Values, found: Finding, seconds: float
) -> tuple[Values, Finding]:
    """Reduces a scenario that fails.

    Args:
        name: of the scenario.
        values: of its file.
        found: how it fails.
        seconds: CPU time after which no more candidates are tried.

    Returns:
        The smallest values that were found, and how they fail.
    """
    until = time.process_time() + seconds
    kind = kind_of(found)
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _smaller(values, found):
            if time.process_time() > until:
                return values, found
            again = find(name, candidate, found.seed)
            if again is not None and kind_of(again) == kind:
                values, found = candidate, again
                is_smaller = True
                break
    return values, found


def kind_of(found: Finding) -> str:
    """The invariant that is violated, without names and numbers."""
    return re.sub(r"[\d.]+", "", found.words.partition(",")[0])


# -- candidates


def _smaller(values: Values, found: Finding) -> Iterator[Values]:
    """Yields changed copies, the smallest first."""
    yield from _calmer(values)
    for name in ("groups", "topics"):
        for key in values.get(name, {}):
            if len(values[name]) > 1:
                yield _changed(values, (name, key))
    yield from _fewer(values)
    for path in [*_paths(values)]:
        is_kept = path[-1] in _NEEDED or len(path) == 1
        if not is_kept and path[0] != "topics":
            yield _changed(values, path)
    yield from _shorter(values, found)


def _calmer(values: Values) -> Iterator[Values]:
    """Leaves out happenings and faults: all, halves, quarters, each of them."""
    for name in _ROWS:
        rows = values.get(name, [])
        count = len(rows)
        while count:
            for start in range(0, len(rows), count):
                yield {**values, name: rows[:start] + rows[start + count :]}
            count //= 2


def _fewer(values: Values) -> Iterator[Values]:
    """Takes fewer members, partitions, nodes: one, half as many, one less."""
    for path in [*_paths(values)]:
        if path[-1] in {"members", "partitions", "nodes"}:
            number = _at(values, path)
            for fewer in dict.fromkeys((1, number // 2, number - 1)):
                if 0 < fewer < number:
                    yield _changed(values, path, fewer)


def _shorter(values: Values, found: Finding) -> Iterator[Values]:
    """Ends behind the violation, and takes rounder times."""
    duration = math.ceil(found.at) + 1
    if duration < reading.seconds(values["duration"]):
        yield {**values, "duration": duration}
    for path in [*_paths(values)]:
        if path[-1] in _TIMES and path[0] in _ROWS:
            number = _at(values, path)
            if not isinstance(number, int | float):
                continue
            for unit in (10, 5, 1):
                rounder = round(number / unit) * unit
                if rounder and rounder != number and (number % unit or unit == 1):
                    yield _changed(values, path, rounder)


def _paths(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the paths of all keys."""
    rows = values.items() if isinstance(values, Mapping) else enumerate(values)
    for key, value in rows:
        if isinstance(key, str):
            yield (*path, key)
        is_inside = isinstance(value, Mapping) and not is_distribution(str(key))
        if is_inside or key in _ROWS:
            yield from _paths(value, (*path, key))


def _at(values: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


def _changed(values: Values, path: tuple[Any, ...], value: object = None) -> Values:
    """A copy with another value; without the key, if there is none."""
    changed = copy.deepcopy({**values})
    place = _at(changed, path[:-1])
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


def report(name: str, values: Values, found: Finding, seconds: float) -> str:
    """A violation, the smallest scenario that has it, and the command that replays it.

    Args:
        name: of the scenario.
        values: of its file.
        found: the violation.
        seconds: CPU time of the reduction.
    """
    smallest, found = shrink(name, values, found, seconds)
    file = f"{name}-{found.seed}.toml"
    return (
        f"violated at {found.at:.3f} s: {found.words}\n\n"
        f"cat > {file} <<'END'\n{toml_of(smallest)}END\n"
        f"kohort simulate {file} --seed {found.seed} --check"
    )
