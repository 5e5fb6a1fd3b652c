"""Opens what a power cut has left, and uses it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

from tests.power import story
from tests.power.findings import Found, check
from tests.power.model import Step, World
from tests.power.serving import Serving
from tests.power.story import GROUPS

AGAIN = 0.3
"""The share of images that are opened a second time, after a stop in order."""


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
        found = serving.found(GROUPS)
        wrong = check(world, step, found) or _carries_on(serving, world)
    finally:
        serving.close()
    return found, wrong


def _carries_on(serving: Serving, world: World) -> list[str]:
    """A producer that sends its last batch again is told where it is already."""
    wrong = []
    given = story.new_producer_id(serving)
    if given in world.producer_ids:
        wrong.append(f"producer id {given} is given again")
    for name, topic in world.topics.items():
        for index, part in enumerate(topic.parts):
            last = part.batches[-1] if part.batches else None
            if last is None or last.producer_id < 0 or last.first < part.start:
                continue
            answer = story.send(serving, (name, index), last.data)
            if (answer.error_code, answer.base_offset) != (0, last.first):
                wrong.append(
                    f"{name[:20]}-{index}: the last batch, at {last.first}, is sent "
                    f"again, and {answer} comes back"
                )
    return wrong


def _opened_again(
    path: Path, found: Found, world: World, config: Mapping[str, object], now: float
) -> list[str]:
    """A stop in order and another start change nothing."""
    serving = Serving(path, config, now)
    try:
        again = serving.found(GROUPS)
    finally:
        serving.close()
    if again == found:
        return []
    return [f"after a clean restart {found} is {again}"]
