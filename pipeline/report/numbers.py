"""Numbers as people read them, each with a link to the query that gave it."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from kohort.pipeline.report.markup import Html, Part, join, tag

_SMALL: Final = 0.001
_UTC: Final = dt.UTC


def count(value: Any) -> str:
    """A whole number: ``12,345``; null: a dash."""
    return "\N{EN DASH}" if value is None else f"{round(value):,}"


def real(value: Any) -> str:
    """Three digits that count: ``0.0123``, ``4.56``, ``1,230``; null: a dash."""
    if value is None:
        return "\N{EN DASH}"
    value = float(value)
    size = abs(value)
    if size < _SMALL:
        return "0" if size == 0 else f"{value:.2g}"
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def seconds(value: Any) -> str:
    """``12 ms``, ``8.1 s``, ``14.2 min``, ``11.5 h``; null: a dash."""
    if value is None:
        return "\N{EN DASH}"
    size = abs(value)
    if size >= 36_000:
        return f"{real(value / 3600)} h"
    if size >= 600:
        return f"{real(value / 60)} min"
    if size >= 1 or size == 0:
        return f"{real(value)} s"
    return f"{real(value * 1000)} ms"


def share(value: Any) -> str:
    """``1.2 %``; null: nobody was there."""
    return "\N{EN DASH}" if value is None else f"{real(100 * value)} %"


def day(ns: Any) -> str:
    """``2026-11-21``, UTC."""
    return "\N{EN DASH}" if ns is None else _moment(ns).strftime("%Y-%m-%d")


def clock(ns: Any) -> str:
    """``19:03:07``, UTC."""
    return "\N{EN DASH}" if ns is None else _moment(ns).strftime("%H:%M:%S")


def moment(ns: Any) -> str:
    """``2026-11-21 19:03:07``, UTC."""
    return "\N{EN DASH}" if ns is None else _moment(ns).strftime("%Y-%m-%d %H:%M:%S")


def iso(ns: int) -> str:
    """A time as plotly takes it, to the millisecond, UTC."""
    return _moment(ns).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _moment(ns: int) -> dt.datetime:
    """Of virtual clocks, too, which may begin at 0."""
    return dt.datetime.fromtimestamp(0, _UTC) + dt.timedelta(microseconds=ns // 1000)


class From:
    """Makes the numbers of one query, with their links.

    Args:
        query: its name.
    """

    def __init__(self, query: str) -> None:
        self.query = query

    def __call__(self, text: Part, *, is_cell: bool = False) -> Html:
        """A number, or whatever else the query said.

        Args:
            text: as people read it.
            is_cell: of a table whose caption has the link, too: no stop for Tab.
        """
        return tag(
            "a",
            text,
            href=f"#q-{self.query}",
            class_="n",
            tabindex="-1" if is_cell else None,
        )

    def count(self, value: Any, one: str = "", many: str = "") -> Html:
        """``12 rebalances``."""
        what = one if value == 1 else many or f"{one}s"
        return join(self(count(value)), f" {what}" if one else "")

    def seconds(self, value: Any) -> Html:
        """``8.1 s``."""
        return self(seconds(value))

    def share(self, value: Any) -> Html:
        """``1.2 %``."""
        return self(share(value))

    def member_seconds(self, value: Any) -> Html:
        """``210 member-seconds``."""
        return join(self(real(value)), " member-seconds")
