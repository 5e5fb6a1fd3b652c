"""Opens the directory that a power cut has left, and uses it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from tests.power.findings import Found, check
from tests.power.model import OFFSETS, Step, World
from tests.power.resending import carries_on
from tests.power.serving import Serving
from tests.power.story import GROUPS

from kohort.broker.log.directory import META
from kohort.control.data_dir.verification import verify

CLOSELY = 0.3
"""The share of images that are also opened a second time, after a clean stop, and
checked by `kohort verify`."""


def _is_drawn(topic: str) -> bool:
    """Returns whether a topic is not internal."""
    return topic != OFFSETS


def looked_at(
    path: Path,
    world: World,
    step: Step | None,
    config: Mapping[str, object],
    now: float,
    draw: random.Random,
) -> list[str]:
    """The violations in a directory, a sentence each.

    Args:
        path: the directory; its contents change.
        world: the acknowledged state; updated to the found state.
        step: the step in progress at the cut.
        config: the broker's.
        now: the time.
        draw: decides how much to check.
    """
    is_close_look = draw.random() < CLOSELY
    try:
        refused = _refused(path) if is_close_look else []
        found, wrong = _opened(path, world, step, config, now)
        wrong += refused
        if not wrong and is_close_look:
            wrong = _damaged(path) or _opened_again(path, found, world, config, now)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return wrong


def _refused(path: Path) -> list[str]:
    """The reasons why no broker would start on it, according to `kohort verify`."""
    if not (path / META).exists():
        # The power was cut before anything else existed.
        return []
    report = verify(path)
    reasons = [each.start for each in report.partitions if each.is_refused]
    return [f"verify: {reason}" for reason in (*report.refusals, *reasons)]


def _damaged(path: Path) -> list[str]:
    """Damaged or missing records after a clean stop, according to `kohort verify`.

    An index of an older segment may still be torn: it is rebuilt when it is read.
    """
    report = verify(path)
    findings = [*report.findings, *(f for p in report.partitions for f in p.findings)]
    return [
        f"verify: {each.path}: {each.what}"
        for each in findings
        if each.is_damage and each.offset is not None
    ]


def _opened(
    path: Path,
    world: World,
    step: Step | None,
    config: Mapping[str, object],
    now: float,
) -> tuple[Found, list[str]]:
    serving = Serving(path, config, now)
    try:
        found = serving.found(GROUPS, _is_drawn)
        wrong = check(world, step, found) or carries_on(serving, world)
    finally:
        serving.close()
    return found, wrong


def _opened_again(
    path: Path, found: Found, world: World, config: Mapping[str, object], now: float
) -> list[str]:
    """A clean stop and another start must change nothing."""
    serving = Serving(path, config, now)
    try:
        again = serving.found(GROUPS, _is_drawn)
    finally:
        serving.close()
    if again == found:
        return []
    return [f"after a clean restart {found} is {again}"]
