"""``kohort top`` as a picture: one line about the broker, groups, and APIs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kohort.control.tables import table
from kohort.control.top.rates import ApiRow, Frame, GroupRow
from kohort.control.why.words import duration, many

STATE_STYLES = {
    "Stable": "green",
    "Empty": "dim",
    "PreparingRebalance": "bold yellow",
    "CompletingRebalance": "yellow",
}
FIXED_LINES = 8
"""The first two lines, two heads, and the lines between."""
FEWEST_GROUPS = 3
MOST_APIS = 8
"""As many as a member calls, and some."""
_NOTHING = "-"


def picture(frame: Frame, height: int | None) -> RenderableType:
    """What there is to show.

    Args:
        frame: see there.
        height: lines that there is room for; None for as many as it takes.
    """
    apis = frame.apis if height is None else frame.apis[:MOST_APIS]
    room = len(frame.groups)
    if height is not None:
        room = max(FEWEST_GROUPS, height - FIXED_LINES - len(apis))
    shown = frame.groups[:room]
    parts: list[RenderableType] = [_head(frame), "", _groups(shown)]
    if len(shown) < len(frame.groups):
        parts.append(Text(f"and {len(frame.groups) - len(shown)} more", style="dim"))
    if apis:
        parts += ["", _apis(apis)]
    return Group(*parts)


def _head(frame: Frame) -> Text:
    now = frame.now
    running = sum(node["running"] for node in now["nodes"])
    states = ", ".join(
        f"{count} {state}" for state, count in now["states"].items() if count
    )
    memory = now["memory_bytes"]
    facts = [
        f"kohort {now['version']}",
        now["bootstrap_servers"],
        f"watched for {duration(now['time_ns'] - now['since_ns'])}",
        f"{running} of {many(len(now['nodes']), 'node')}",
        many(sum(node["connections"] for node in now["nodes"]), "connection"),
    ]
    more = [
        f"groups: {states or 'none'}",
        *([] if frame.cpu is None else [f"CPU {frame.cpu:.0%}"]),
        *([] if memory is None else [f"memory {memory / 2**20:.0f} MiB"]),
        f"loop lag up to {duration(round(now['loop_lag_worst_seconds'] * 1e9))}",
        *(f"{name}={value}" for name, value in now["labels"].items()),
    ]
    return Text("\n".join([" · ".join(facts), " · ".join(more)]))


def _groups(rows: Sequence[GroupRow]) -> Table:
    numbers = ("generation", "members", "lag", "commits/s", "rebalances", "average")
    found = table(
        *("group", "state", *numbers, "last", "refused"),
        numbers=(*numbers, "refused"),
    )
    for row in rows:
        new = f" (+{row.new_rebalances})" if row.new_rebalances else ""
        last = _NOTHING
        if row.last_cause is not None and row.last_ns is not None:
            last = f"{row.last_cause.replace('_', ' ')}, {duration(row.last_ns)} ago"
        found.add_row(
            row.name,
            Text(row.state or _NOTHING, style=STATE_STYLES.get(row.state or "", "")),
            _NOTHING if row.generation is None else str(row.generation),
            str(row.members),
            f"{row.lag:,}",
            _rate(row.commits_per_s),
            f"{row.rebalances}{new}",
            _seconds(row.rebalance_s),
            last,
            Text(str(row.refusals), style="red" if row.refusals else ""),
        )
    return found


def _apis(rows: Sequence[ApiRow]) -> Table:
    numbers = ("requests/s", "errors/s", "half within", "99% within")
    found = table("API", *numbers, numbers=numbers)
    for row in rows:
        found.add_row(
            row.name,
            _rate(row.per_s),
            Text(_rate(row.errors_per_s), style="red" if row.errors_per_s else ""),
            _seconds(row.median_s),
            _seconds(row.worst_s),
        )
    return found


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return _NOTHING
    if value == float("inf"):
        return "longer"
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 0.01:
        return f"{value * 1e3:.1f} ms"
    return duration(round(value * 1e9))
