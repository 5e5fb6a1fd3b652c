"""Formats of numbers, times and names; numbers link to their query."""

from __future__ import annotations

import datetime as dt
import html
import unicodedata
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

if TYPE_CHECKING:
    from kohort.pipeline.report.queries import Row

LONGEST: Final = 80
"""Characters of a name that are shown; the query's answer has all of it."""
DASH: Final = "\N{EN DASH}"
_SMALL: Final = 0.001
_UTC: Final = dt.UTC
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

# -- numbers and times; null is a dash


def count(value: Any) -> str:
    """A whole number: ``12,345``."""
    return DASH if value is None else f"{round(value):,}"


def real(value: Any) -> str:
    """Three significant digits: ``0.0123``, ``4.56``, ``1,230``."""
    if value is None:
        return DASH
    value = float(value)
    size = abs(value)
    if size < _SMALL:
        return "0" if size == 0 else f"{value:.2g}"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if size >= 100 else f"{rounded:g}"


def seconds(value: Any) -> str:
    """``12 ms``, ``8.1 s``, ``14.2 min``, ``11.5 h``."""
    if value is None:
        return DASH
    size = abs(value)
    if size >= 36_000:
        return f"{real(value / 3600)} h"
    if size >= 600:
        return f"{real(value / 60)} min"
    if size >= 1 or size == 0:
        return f"{real(value)} s"
    return f"{real(value * 1000)} ms"


def share(value: Any) -> str:
    """``1.2 %``."""
    return DASH if value is None else f"{real(100 * value)} %"


def between(low: Any, high: Any, form: Callable[[Any], str] = real) -> str:
    """``1.2 to 3.4``; too few: a bound is missing."""
    if low is None or high is None:
        return "too few"
    return f"{form(low)} to {form(high)}"


def with_intervals(rows: Iterable[Row]) -> list[Row]:
    """Rows of the query ``durations``, with the intervals of p50 and p95 as texts."""
    return [
        {
            **row,
            **{
                f"{part}_interval": between(
                    row[f"duration_{part}_low_s"],
                    row[f"duration_{part}_high_s"],
                    seconds,
                )
                for part in ("p50", "p95")
            },
        }
        for row in rows
    ]


def hour(value: dt.datetime) -> str:
    """``2026-11-21 19:00``."""
    return value.strftime("%Y-%m-%d %H:%M")


def day(ns: Any) -> str:
    """``2026-11-21``, UTC."""
    return DASH if ns is None else _time(ns).strftime("%Y-%m-%d")


def clock(ns: Any) -> str:
    """``19:03:07``, UTC."""
    return DASH if ns is None else _time(ns).strftime("%H:%M:%S")


def moment(ns: Any) -> str:
    """``2026-11-21 19:03:07``, UTC."""
    return DASH if ns is None else _time(ns).strftime("%Y-%m-%d %H:%M:%S")


def iso(ns: int) -> str:
    """A time as plotly takes it, to the millisecond, UTC."""
    return _time(ns).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _time(ns: int) -> dt.datetime:
    """A time in ns; virtual clocks may begin at 0."""
    return dt.datetime.fromtimestamp(0, _UTC) + dt.timedelta(microseconds=ns // 1000)


class Numbers:
    """The numbers of one query, as links to it.

    Args:
        query: its name.
    """

    def __init__(self, query: str) -> None:
        self.query = query

    def __call__(self, text: str, *, is_cell: bool = False) -> Markup:
        """A number, or a text of the query.

        Args:
            text: as people read it.
            is_cell: in a table whose caption has the link, too: no stop for Tab.
        """
        tab = Markup(' tabindex="-1"') if is_cell else ""
        return Markup('<a href="#q-{}" class="n"{}>{}</a>').format(
            self.query, tab, text
        )

    def count(self, value: Any, one: str = "", many: str = "") -> Markup:
        """``12 rebalances``."""
        what = one if value == 1 else many or f"{one}s"
        return self(count(value)) + (f" {what}" if one else "")

    def real(self, value: Any, unit: str = "") -> Markup:
        """``210 member-seconds``."""
        return self(real(value)) + (f" {unit}" if unit else "")

    def seconds(self, value: Any) -> Markup:
        """``8.1 s``."""
        return self(seconds(value))

    def share(self, value: Any) -> Markup:
        """``1.2 %``."""
        return self(share(value))

    def clock(self, ns: Any) -> Markup:
        """``19:03:07``."""
        return self(clock(ns))

    def moment(self, ns: Any) -> Markup:
        """``2026-11-21 19:03:07``."""
        return self(moment(ns))


# -- names: from users, clients and labels, so they may contain any characters


def visible(text: str, longest: int = LONGEST) -> str:
    """A name, cut, with invisible characters written out."""
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(
        f"⟨U+{ord(sign):04X}⟩" if unicodedata.category(sign) in _UNSEEN else sign
        for sign in cut
    )


def name(text: str | None) -> Markup:
    """A name in a sentence; null: without a name."""
    if text is None:
        return Markup('<i class="name">without a name</i>')
    return Markup('<bdi class="name">{}</bdi>').format(visible(text) or "(empty)")


def setting(text: str | None) -> Markup:
    """The name of a setting, which lines break after its dots."""
    parts = visible(text or "").split(".")
    return Markup('<span class="name">{}</span>').format(Markup(".<wbr>").join(parts))


def said(text: str | None) -> str:
    """A text of the query, perhaps with numbers."""
    return DASH if text is None else visible(text, len(text))


def label(text: str | None, longest: int = 28) -> str:
    """A name for plotly, which takes some HTML and entities for markup."""
    if text is None:
        return "without a name"
    return html.escape(visible(text, longest) or "(empty)", quote=False)


def listed(parts: Iterable[str]) -> Markup:
    """``a, b and c``; parts that are empty are left out."""
    *before, last = [part for part in parts if part] or [""]
    return Markup(" and ").join([Markup(", ").join(before), last] if before else [last])
