"""The sentence at the top: the groups ranked, and those compared that are alike.

Groups are compared if the same happened to them, and they differ in the way that they
assign: as many members, partitions, restarts, expired sessions and refusals, processes
that were away about as long, and no other causes of rebalances. Others are only ranked,
by the partition-seconds without a reader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from kohort.pipeline.report.formats import count, many, name, real, share, visible
from kohort.pipeline.report.queries import Row

ALIKE: Final = 1.5
"""The longest absence of processes that are compared, by the shortest."""
_SAME: Final = (
    *("runs", "members", "partitions", "restarts", "restarted", "expired"),
    *("refused_full", "other_causes"),
)
"""Columns of the query ``groups`` that are equal in groups that are compared."""
_SEPARATE: Final = "partition-seconds without a reader"


def verdict(groups: Sequence[Row]) -> Markup:
    """A sentence about groups alike, if there are any, and one that ranks all.

    Args:
        groups: rows of the query ``groups``, the most downtime first.
    """
    return Markup(" ").join(filter(None, (compared(groups), ranked(groups))))


def kind(row: Row) -> str:
    """The way in which a group assigns: ``static eager``; empty: unknown.

    Consumer groups (KIP-848) are neither eager nor cooperative.
    """
    classic = {True: "eager", False: "cooperative", None: ""}[row["is_eager"]]
    way = {"classic": classic, "consumer": "consumer"}.get(row["group_type"], "")
    return f"{'static ' if row['is_static'] else ''}{way}".strip()


def assigns(row: Row) -> str:
    """The same with the assignors: ``static, eager, range``."""
    assignors = ", ".join(visible(each) for each in row["assignors"] or ())
    words = [each for each in kind(row).split() if each not in assignors]
    return ", ".join(filter(None, (*words, assignors)))


def ranked(groups: Sequence[Row]) -> Markup:
    """The groups with the most downtime, and their share of all."""
    if not groups:
        return Markup("These tables have no groups: no events were recorded yet.")
    total = sum(row["downtime_s"] for row in groups)
    if not total:
        return Markup("Every partition had a reader all the time.")
    first, *others = (row for row in groups if row["downtime_s"])
    lost = f"{real(first['downtime_s'])} {_SEPARATE}"
    if len(groups) == 1:
        of = f", {share(first['downtime_share'])} of the time"
        return Markup("{} lost {}{}.").format(name(first["group"]), lost, of)
    of = f"{share(first['downtime_s'] / total)} of the loss of all {count(len(groups))}"
    then = _listed(_cost(row) for row in others[:2])
    return Markup("{} lost {}: {}, {} groups{}.").format(
        name(first["group"]), "the most", lost, of, then and Markup("; then ") + then
    )


def _cost(row: Row) -> Markup:
    return Markup("{} ({})").format(name(row["group"]), real(row["downtime_s"]))


def compared(groups: Sequence[Row]) -> Markup | None:
    """The cost of one incident by kind of group; None: no groups are alike."""
    sets = [rows for rows in _alike(groups) if len({*map(_label, rows)}) > 1]
    if not sets:
        return None
    rows = max(sets, key=lambda rows: (len(rows), rows[0]["downtime_s"]))
    first = rows[0]
    labels = [kind(row) for row in rows]
    if len({*labels}) == 1:
        labels = [" and ".join(row["assignors"]) for row in rows]
    costs = _listed(
        Markup("{} {} ({})").format(
            real(row["downtime_s"]) + (" partition-seconds" if row is first else ""),
            called or "otherwise",
            name(row["group"]),
        )
        for row, called in zip(rows, labels, strict=True)
    )
    return Markup("In {} groups of {} and {}, {} cost {}.").format(
        count(len(rows)),
        many(first["members"], "member"),
        many(first["partitions"], "partition"),
        _incident(first),
        costs,
    )


def _label(row: Row) -> tuple[object, ...]:
    return kind(row), *(row["assignors"] or ())


def _alike(groups: Iterable[Row]) -> Iterable[list[Row]]:
    """Groups to which the same happened, by the time that processes were away."""
    by_incident: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in groups:
        if row["restarts"] or row["expired"]:
            same = (*(row[key] for key in _SAME), row["unprocessed_s"] > 0)
            by_incident[same].append(row)
    for rows in by_incident.values():
        rows.sort(key=lambda row: row["away_s"] or 0)
        ends = [
            place
            for place, (row, later) in enumerate(pairwise(rows), 1)
            if (later["away_s"] or 0) > ALIKE * (row["away_s"] or 0)
        ]
        for start, end in pairwise((0, *ends, len(rows))):
            yield sorted(rows[start:end], key=lambda row: -row["downtime_s"])


def _incident(row: Row) -> str:
    """The incidents of a group: ``a restart of every member, 4 expired sessions``."""
    parts = []
    if row["restarts"]:
        is_all = row["restarts"] == row["runs"] * row["members"]
        is_each = is_all and row["restarted"] == row["members"]
        restarts = many(row["restarts"], "restart")
        parts.append("a restart of every member" if is_each else restarts)
    if row["expired"]:
        parts.append(many(row["expired"], "expired session"))
    return " and ".join(parts)


def _listed(parts: Iterable[Markup]) -> Markup:
    """``a, b and c``."""
    *before, last = [*parts] or [Markup()]
    return Markup(" and ").join([Markup(", ").join(before), last] if before else [last])
