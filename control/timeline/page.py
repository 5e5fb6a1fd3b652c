"""Puts the page together: one document, with its style, its scripts and its events.

Everything is in the document itself, and its policy (Content-Security-Policy) names
the scripts and the style by their hashes: nothing else runs, and nothing is fetched,
but the events of the live page from where it came from.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

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
    "source.js",
    "main.js",
)
"""In this order: each knows those before it."""


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


def file_page(
    lines: Iterable[bytes],
    *,
    name: str,
    explanations: Mapping[str, Iterable[str]] | None = None,
) -> Page:
    """A page that shows these events, and needs nothing besides.

    Args:
        lines: one event each, as JSON.
        name: what the page says that it shows.
        explanations: more to say about rebalances, a sentence each: by the
            "run/node/sequence" of their ``rebalance_started``.
    """
    packed = gzip.compress(b"\n".join(lines), mtime=0)
    said = {key: list(sentences) for key, sentences in (explanations or {}).items()}
    data = (
        _data("events", "application/gzip", base64.b64encode(packed).decode())
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
    made = _asset("page.html")
    for mark, text in (
        ("@POLICY@", html.escape(policy)),
        ("@MODE@", mode),
        ("@TITLE@", html.escape(title)),
        ("@SOURCE@", html.escape(source)),
        ("@STYLE@", f"<style>{style}</style>"),
        ("@SCRIPTS@", "\n".join(f"<script>{each}</script>" for each in scripts)),
        ("@DATA@", data),
    ):
        made = made.replace(mark, text, 1)
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
