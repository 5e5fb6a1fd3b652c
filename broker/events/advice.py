"""Thresholds of advice, shared by `kohort why` and the pipeline's rules.

``pipeline/event_schema.json`` has `as_json` under the key "advice".
"""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.events.account.processes import RESTART_NS
from kohort.broker.events.account.reasons import POLL_INTERVAL
from kohort.broker.events.account.rebalance import SLOW_TO_JOIN_NS

_SECOND: Final = 1_000_000_000

ARRIVAL_GAP_NS: Final = 10 * _SECOND
"""The longest pause between arrivals of one start. The longest useful initial delay is
of that order; a member that comes later was added."""
HELD_UP_NS: Final = SLOW_TO_JOIN_NS
"""Waits for one member that are too long."""
EAGER_PAUSE_NS: Final = _SECOND
"""The least total pause that an eager rebalance has to cost on average: less goes
unnoticed."""
KEPT_SHARE: Final = 0.5
"""Returning partitions as a share of all revoked ones: from half on, most of the pause
was in vain."""


def as_json() -> dict[str, Any]:
    """All thresholds as JSON types, for Spark."""
    return {
        "arrival_gap_ns": ARRIVAL_GAP_NS,
        "held_up_ns": HELD_UP_NS,
        "eager_pause_ns": EAGER_PAUSE_NS,
        "kept_share": KEPT_SHARE,
        "restart_ns": RESTART_NS,
        "poll_interval_reasons": POLL_INTERVAL,
    }
