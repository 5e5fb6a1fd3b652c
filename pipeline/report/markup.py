"""HTML that is right by construction: whatever is no `Html` is text, and is escaped.

Names come from users, clients and labels: they can have anything in them.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 80
"""Characters of a name that are shown; the whole of it is in the query's answer."""
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Part = Html | str
"""A string that is no `Html` is escaped where it is put."""


def join(*parts: Part) -> Html:
    """Parts behind each other."""
    return Html(
        "".join(part if isinstance(part, Html) else html.escape(part) for part in parts)
    )


def tag(name: str, *parts: Part, **attributes: str | None) -> Html:
    """An element; ``class_`` is the attribute class, ``aria_label`` aria-label."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{said}>{join(*parts)}</{name}>")


def listed(parts: Iterable[Part], last: str = " and ") -> Html:
    """``a, b and c``; of none nothing."""
    *before, final = [*parts] or [""]
    if not before:
        return join(final)
    put = [before[0]]
    for each in before[1:]:
        put += [", ", each]
    return join(*put, last, final)


def visible(text: str, longest: int = LONGEST) -> str:
    """A name as it can be seen: cut, and what is not seen in it is written out."""
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return "".join(
        f"⟨U+{ord(sign):04X}⟩" if unicodedata.category(sign) in _UNSEEN else sign
        for sign in cut
    )


def name(text: str | None) -> Html:
    """A name, as it is in a sentence; null: nobody said one."""
    if text is None:
        return tag("i", "without a name", class_="name")
    return tag("bdi", visible(text) or "(empty)", class_="name")


def label(text: str | None, longest: int = 28) -> str:
    """A name as plotly is told it: it takes some HTML, and entities, for markup."""
    if text is None:
        return "without a name"
    return html.escape(visible(text, longest) or "(empty)", quote=False)


def anchor(text: str) -> str:
    """A part of an id: what is no letter, digit or dash is one."""
    return re.sub(r"[^A-Za-z0-9-]", "-", text)
