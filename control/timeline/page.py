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
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from kohort.broker.events import SCHEMA_VERSION, words
from kohort.broker.events.schema import KINDS

SCRIPTS = (
    "text.js",
    "words.js",
    "rebalances.js",
    "model.js",
    "fold.js",
    "rows.js",
    "draw.js",
    "marks.js",
    "chart.js",
    "explanation.js",
    "panel.js",
    "tables.js",
    "delivery.js",
    "findings.js",
    "gestures.js",
    "forget.js",
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
def live_page() -> Page:
    """The page of a running broker: each server-sent event of /events is one event."""
    return _page("live", "kohort timeline", connect="'self'", source="events")


def file_page(
    events: str,
    *,
    name: str,
    findings: Mapping[str, list[dict[str, Any]]],
) -> Page:
    """A page that shows these events and loads nothing else.

    Args:
        events: a line of JSON for each, gzip, base64; runs one after the other.
        name: of the file, for the title.
        findings: of each group, as JSON's types.
    """
    data = (
        _data("events", "application/gzip", events)
        + "\n"
        + _data("found", "application/json", _json(findings))
    )
    return _page(
        "file", f"{name} - kohort timeline", connect="'none'", source=name, data=data
    )


def _page(mode: str, title: str, *, connect: str, source: str, data: str = "") -> Page:
    style = _asset("page.css")
    scripts = [_words(), *(_asset(name) for name in SCRIPTS)]
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


@functools.cache
def _words() -> str:
    """The schema's words as a script: the meanings of causes, by kind."""
    causes = {kind.name: dict(kind.causes) for kind in KINDS if kind.causes}
    table = _json(words.as_json() | {"causes": causes})
    return f'"use strict";\nconst WORDS = {table};\n'


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _data(name: str, kind: str, text: str) -> str:
    return f'<script id="{name}" type="{kind}">{text}</script>'


def _json(value: Any) -> str:
    # An escaped < neither ends nor begins an element of HTML.
    return json.dumps(value).replace("<", "\\u003c")
