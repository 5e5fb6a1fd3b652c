"""Gold: per hour, per group and per run, what a platform team decides by.

Each maker is a pure function of the tables before it. gold/quality is made elsewhere:
it is about the data, not about groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kohort.pipeline.gold import (
    causes,
    initial_delay,
    metrics,
    settings,
    storms,
    who,
)
from kohort.pipeline.makers import Maker

MAKERS: Final[Mapping[str, Maker]] = MappingProxyType(
    {
        "gold/hours": metrics.hours,
        "gold/groups": metrics.groups,
        "gold/runs": metrics.runs,
        "gold/causes": causes.causes,
        "gold/storms": storms.storms,
        "gold/culprits": who.culprits,
        "gold/waited_for": who.waited_for,
        "gold/initial_delay": initial_delay.initial_delay,
        "gold/settings": settings.settings,
    }
)
"""By paths, in the order of the tables: one may use those before it."""
