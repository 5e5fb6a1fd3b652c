"""Puts the page together: one document, with its style, its scripts and its events.

Everything is in the document itself, and its policy (Content-Security-Policy) names
the scripts and the style by their hashes: nothing else runs, and nothing is fetched,
but the events of the live page from where it came from.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import io
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Self

from kohort.broker.events import SCHEMA_VERSION

SCRIPTS = (
    "text.js",
    "words.js",
    "model.js",
    "fold.js",
    "rows.js",
    "draw.js",
    "marks.js",
    "chart.js",
    "panel.js",
    "tables.js",
    "gestures.js",
    "forget.js",
    "source.js",
    "main.js",
)
"""In this order: each knows those before it."""

GZIP_BITS = zlib.MAX_WBITS + 16
"""Of zlib: its largest window, in gzip's format."""


@dataclass(frozen=True, slots=True)
class Page:
    """A document, and the headers to serve it with.

    Attributes:
        html: the document.
        headers: of an HTTP response; a file does without, the policy is in it, too.
    """

    html: str
    headers: Mapping[str, str]


@functools.cache
def live_page(events: str = "events") -> Page:
    """The page that shows a running broker.

    Args:
        events: where its server-sent events are, relative to the page: each message
            is one event as JSON.
    """
    return _page("live", "kohort timeline", connect="'self'", source=events)


class Packed:
    """Events for `file_page`, taken one by one: a file may be larger than memory."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        # gzip's format, without a name or a time: the same events make the same page.
        self._gzip = zlib.compressobj(6, wbits=GZIP_BITS)

    @classmethod
    def of(cls, lines: Iterable[bytes]) -> Self:
        """All of these."""
        packed = cls()
        for line in lines:
            packed.add(line)
        return packed

    def add(self, line: bytes) -> None:
        """One more event, as JSON; those of a run and node in order."""
        self._bytes.write(self._gzip.compress(line + b"\n"))

    def text(self) -> str:
        """All of them, for HTML; nothing can be added any more."""
        self._bytes.write(self._gzip.flush())
        return base64.b64encode(self._bytes.getbuffer()).decode()


def file_page(
    packed: Packed,
    *,
    name: str,
    explanations: Mapping[str, Iterable[str]] | None = None,
) -> Page:
    """A page that shows these events, and needs nothing besides.

    Args:
        packed: the events; runs one after the other, and not twice.
        name: what the page says that it shows.
        explanations: more to say about rebalances, a sentence each: by the
            "run/node/sequence" of their ``rebalance_started``.
    """
    said = {key: list(sentences) for key, sentences in (explanations or {}).items()}
    data = (
        _data("events", "application/gzip", packed.text())
        + "\n"
        + _data("explanations", "application/json", _json(said))
    )
    return _page(
        "file", f"{name} - kohort timeline", connect="'none'", source=name, data=data
    )


def _page(mode: str, title: str, *, connect: str, source: str, data: str = "") -> Page:
    style = _asset("page.css")
    scripts = [_asset(name) for name in SCRIPTS]
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(_hash(each) for each in scripts)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            f"connect-src {connect}",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    texts = {
        "@POLICY@": html.escape(policy),
        "@MODE@": mode,
        "@SCHEMA@": str(SCHEMA_VERSION),
        "@TITLE@": html.escape(title),
        "@SOURCE@": html.escape(source),
        "@STYLE@": f"<style>{style}</style>",
        "@SCRIPTS@": "\n".join(f"<script>{each}</script>" for each in scripts),
        "@DATA@": data,
    }
    # All at once: a name may have one of the marks in it.
    made = re.sub("@[A-Z]+@", lambda mark: texts[mark[0]], _asset("page.html"))
    headers = {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return Page(made, headers)


@functools.cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _data(name: str, kind: str, text: str) -> str:
    return f'<script id="{name}" type="{kind}">{text}</script>'


def _json(value: Any) -> str:
    # What ends or begins an element in HTML is no such thing in an escape.
    return json.dumps(value).replace("<", "\\u003c")
