"""Opens what a power cut has left, and uses it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from tests.power.findings import Found, check
from tests.power.model import OFFSETS, Step, World
from tests.power.resending import carries_on
from tests.power.serving import Serving
from tests.power.story import GROUPS

AGAIN = 0.3
"""The share of images that are opened a second time, after a stop in order."""


def _is_drawn(topic: str) -> bool:
    """Whether a topic is none of the broker's own."""
    return topic != OFFSETS


def looked_at(
    path: Path,
    world: World,
    step: Step | None,
    config: Mapping[str, object],
    now: float,
    draw: random.Random,
) -> list[str]:
    """What is wrong with a directory, a sentence each.

    Args:
        path: the directory; its contents change.
        world: what was acknowledged; it is as found afterwards.
        step: what was under way at the cut.
        config: the broker's.
        now: the time.
        draw: decides how far to look.
    """
    is_opened_again = draw.random() < AGAIN
    try:
        found, wrong = _opened(path, world, step, config, now)
        if not wrong and is_opened_again:
            wrong = _opened_again(path, found, world, config, now)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        return [f"{type(error).__name__}: {error}"]
    return wrong


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
    """A stop in order and another start change nothing."""
    serving = Serving(path, config, now)
    try:
        again = serving.found(GROUPS, _is_drawn)
    finally:
        serving.close()
    if again == found:
        return []
    return [f"after a clean restart {found} is {again}"]
