"""``kohort top`` as a picture: a few lines about the broker, its groups, its APIs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from kohort.broker.events.findings.words import duration
from kohort.control.terminal import counted, printable
from kohort.control.top.columns import Column, fitting
from kohort.control.top.rates import ApiRow, Frame, GroupRow, Tally

STATE_STYLES = {
    "Stable": "green",
    "Empty": "dim",
    "PreparingRebalance": "bold yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
}
FIXED_LINES = 9
"""Lines about the broker, two headings, "and N more", and the lines between."""
FEWEST_GROUPS = 3
MOST_APIS = 8
"""As many as a member calls, and some."""
_NOTHING = "-"
_LONGEST_STATE = max(map(len, STATE_STYLES))


def picture(
    frame: Frame,
    width: int | None = None,
    height: int | None = None,
    trouble: str | None = None,
) -> RenderableType:
    """Renders the screen.

    Args:
        frame: see there.
        width: available characters per line; None for no limit.
        height: available lines, likewise.
        trouble: why there is nothing newer.
    """
    apis, groups = frame.apis, frame.groups
    if height is not None:
        room = height - FIXED_LINES
        # Groups matter more; but a third is for the APIs, however many there are.
        count = max(room // 3, room - len(groups), 1)
        apis = apis[: min(count, MOST_APIS)]
        groups = groups[: max(FEWEST_GROUPS, room - len(apis))]
    parts: list[RenderableType] = [*_head(frame, trouble), ""]
    parts.append(fitting(groups, GROUP_COLUMNS, _GROUP_LAST, width))
    if len(groups) < len(frame.groups):
        parts.append(Text(f"and {len(frame.groups) - len(groups)} more", style="dim"))
    if apis:
        parts += ["", fitting(apis, API_COLUMNS, _API_LAST, width)]
    return Group(*parts)


def _head(frame: Frame, trouble: str | None) -> list[Text]:
    now = frame.now
    running = sum(node["running"] for node in now["nodes"])
    states = ", ".join(
        f"{count} {state}" for state, count in now["states"].items() if count
    )
    memory = now["memory_bytes"]
    lines = [
        [
            f"kohort {now['version']}",
            f"{running} of {counted(len(now['nodes']), 'node')}",
            counted(sum(node["connections"] for node in now["nodes"]), "connection"),
            f"watched for {duration(now['time_ns'] - now['since_ns'])}",
            now["bootstrap_servers"],
        ],
        [
            f"loop lag up to {duration(round(now['loop_lag_worst_seconds'] * 1e9))}",
            *([] if memory is None else [f"memory {memory / 2**20:.0f} MiB"]),
            *([] if frame.cpu is None else [f"CPU {frame.cpu:.0%}"]),
            *(printable(f"{name}={value}") for name, value in now["labels"].items()),
        ],
        [f"groups: {states or 'none'}"],
        [
            f"rebalances: {_tally_text(frame.causes) or 'none'}",
            f"refused: {_tally_text(frame.refusals) or 'none'}",
        ],
    ]
    found = [_line(" · ".join(facts)) for facts in lines]
    if trouble is not None:
        found[0] = _line(printable(trouble), style="bold red")
    return found


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _tally_text(tally: Tally) -> str:
    """As in "3 member joined, 1 session expired"."""
    return ", ".join(
        f"{count} {name if name.isupper() else name.replace('_', ' ')}"
        for name, count in tally.items()
    )


def _state(row: GroupRow) -> Text:
    return Text(row.state or _NOTHING, style=STATE_STYLES.get(row.state or "", ""))


def _rebalances(row: GroupRow) -> str:
    new = f" (+{row.new_rebalances})" if row.new_rebalances else ""
    return f"{row.rebalances}{new}"


def _refused(row: GroupRow) -> Text:
    count = sum(row.refusals.values())
    return Text(str(count), style="red" if count else "")


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


GROUP_COLUMNS: Sequence[Column[GroupRow]] = (
    Column(
        "GROUP", lambda row: printable(row.name), 12, may_be_cut=True, is_number=False
    ),
    Column("STATE", _state, _LONGEST_STATE, is_number=False),
    Column(
        "GEN", lambda row: _NOTHING if row.generation is None else str(row.generation)
    ),
    Column("MEMBERS", lambda row: str(row.members)),
    Column("LAG", lambda row: f"{row.lag:,}", 5),
    Column("COMMITS/S", lambda row: _rate(row.commits_per_s)),
    Column("REBALANCES", _rebalances),
    Column("AVERAGE", lambda row: _seconds(row.rebalance_s)),
    Column("PAUSED", lambda row: _seconds(row.paused_s or None)),
    Column(
        "AGO",
        lambda row: _NOTHING if row.last_ns is None else duration(row.last_ns),
        11,
    ),
    Column(
        "CAUSES",
        lambda row: _tally_text(row.causes),
        18,
        may_be_cut=True,
        is_number=False,
    ),
    Column("REFUSED", _refused),
    Column(
        "ERRORS",
        lambda row: _tally_text(row.refusals),
        10,
        may_be_cut=True,
        is_number=False,
    ),
)
_GROUP_LAST = (
    *("ERRORS", "AGO", "PAUSED", "CAUSES", "COMMITS/S", "AVERAGE"),
    *("GEN", "REFUSED", "REBALANCES", "LAG", "MEMBERS"),
)

API_COLUMNS: Sequence[Column[ApiRow]] = (
    Column("API", lambda row: row.name, 12, may_be_cut=True, is_number=False),
    Column("REQUESTS/S", lambda row: _rate(row.per_s)),
    Column(
        "ERRORS/S",
        lambda row: Text(
            _rate(row.errors_per_s), style="red" if row.errors_per_s else ""
        ),
    ),
    Column("P50", lambda row: _seconds(row.median_s)),
    Column("P99", lambda row: _seconds(row.worst_s)),
    Column(
        "ERRORS",
        lambda row: _tally_text(row.errors),
        10,
        may_be_cut=True,
        is_number=False,
    ),
)
_API_LAST = ("ERRORS", "P99", "P50", "ERRORS/S", "REQUESTS/S")
