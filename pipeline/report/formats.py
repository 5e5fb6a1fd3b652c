"""Formats of numbers, times and names, and the cells of tables."""

from __future__ import annotations

import datetime as dt
import html
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from markupsafe import Markup

from kohort.pipeline.event_schema import WORDS

LONGEST: Final = 80
"""Characters of a name that are shown; the query's answer has all of it."""
DASH: Final = "\N{EN DASH}"
_SMALL: Final = 0.001
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


def share(value: Any) -> str:
    """``1.2 %``."""
    return DASH if value is None else f"{real(100 * value)} %"


def between(low: Any, high: Any, form: Callable[[Any], str] = real) -> str:
    """``1.2 to 3.4``; too few: a bound is missing."""
    if low is None or high is None:
        return "too few"
    return f"{form(low)} to {form(high)}"


def many(value: Any, one: str) -> str:
    """``1 rebalance``, ``12 rebalances``."""
    return f"{count(value)} {one}{'' if value == 1 else 's'}"


def moment(ns: Any) -> str:
    """``2026-11-21 19:03:07``, UTC."""
    return DASH if ns is None else iso(ns)[:19]


def clock(ns: Any) -> str:
    """``19:03:07``, UTC."""
    return moment(ns)[11:] or DASH


def iso(ns: int) -> str:
    """A time as plotly takes it, to the millisecond, UTC; virtual clocks begin at 0."""
    at = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=ns // 1000)
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


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
    return Markup("<code>{}</code>").format(Markup(".<wbr>").join(parts))


def label(text: str | None, longest: int = 22) -> str:
    """A name for plotly, which takes some HTML and entities for markup."""
    if text is None:
        return "without a name"
    return html.escape(visible(text, longest) or "(empty)", quote=False)


def unlike(names: Iterable[str | None]) -> dict[str | None, str]:
    """Labels of names, no two alike: cut names may be."""
    found: dict[str | None, str] = {}
    for each in names:
        text, copies = label(each), 1
        while text in found.values():
            copies += 1
            text = f"{label(each)} ({copies})"
        found[each] = text
    return found


# -- cells of tables, by the name of their column

_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "cause": WORDS["rebalance_causes"],
    "reason": {
        **WORDS["again_reasons"],
        **WORDS["skip_reasons"],
        **WORDS["went_back"],
    },
    "what": {
        "again_certain": "handled and sent again",
        "again_possible": "sent again, perhaps handled before",
        "skipped": "skipped",
        "went_back": "committed offset went back",
    },
}
_HEADINGS: Final = {
    "downtime_s": "without a reader, partition-s",
    "downtime_share": "share of the time",
    "downtime_saved_p50_s": "saved, partition-s, p50",
    "paused_s": "paused, member-s",
    "assigns": "assignor",
    "expired": "expired sessions",
    "refused_full": "refused: group full",
    "commit_failures": "refused commits",
    "again_certain": "handled and sent again",
    "again_possible": "sent again, perhaps handled",
    "skipped": "skipped records",
    "went_back": "offsets went back",
    "uncommitted": "not committed",
}


def heading(column: str) -> str:
    """The heading of a column of a query: ``open_p50_s`` is ``open p50, s``."""
    if column in _HEADINGS:
        return _HEADINGS[column]
    for ending, unit in (("_ns", ", UTC"), ("_ms", ", ms"), ("_s", ", s")):
        if column.endswith(ending):
            column = column.removesuffix(ending) + unit
    return column.replace("_", " ")


def is_number(value: Any) -> bool:
    """True if a value stands right in its column."""
    return value is None or isinstance(value, (int, float))


def cell(column: str, value: Any) -> Markup | str:
    """A value of a column of a query."""
    if isinstance(value, Mapping):
        pairs = sorted(value.items())
        return Markup(", ").join(name(f"{key}: {each}") for key, each in pairs) or DASH
    if isinstance(value, str):
        return _WORDS.get(column, {}).get(value) or name(value)
    if value is None:
        return name(None) if column == "name" else DASH
    if column.endswith("share"):
        return share(value)
    if column.endswith("_ns"):
        return moment(value)
    return count(value) if isinstance(value, int) else real(value)
