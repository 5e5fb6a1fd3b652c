"""A scene for every kind of event about groups, and for every cause."""

from __future__ import annotations

from collections.abc import Mapping

from tests.events.plays import commands, consumers, members, offsets, rebalances
from tests.events.plays.scene import Scene

PLAYS: Mapping[tuple[str, str | None], Scene] = {
    **members.PLAYS,
    **commands.PLAYS,
    **rebalances.PLAYS,
    **offsets.PLAYS,
    **consumers.PLAYS,
}
