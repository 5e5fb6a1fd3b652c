"""Puts the report together: one document that asks nobody for anything.

plotly.js is in it once, packed by gzip; the page unpacks it, and its policy
(Content-Security-Policy) lets run only what has one of the hashes that it names.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import html
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any, Final

from kohort.pipeline.report import sections, troubles
from kohort.pipeline.report.asking import BY_NAME, Answer, Answers, Query, sql
from kohort.pipeline.report.markup import Html, Part, join, name, tag
from kohort.pipeline.report.sections import section

_SOURCES: Final = 5
"""So many files that events came from are named."""
_LINKS: Final = (
    ("short", "In short"),
    ("happened", "What happened"),
    ("groups", "Which groups suffer"),
    ("causes", "Causes"),
    ("crashes", "Crashes"),
    ("lag", "Lag"),
    ("commits", "Commits"),
    ("refusals", "Refusals"),
    ("change", "What to change"),
    ("sure", "How sure"),
    ("queries", "Queries"),
)


def page(
    answers: Answers, *, about: Mapping[str, Any], runs: Sequence[str] | None = None
) -> str:
    """The report.

    Args:
        answers: of all queries.
        about: what the lineage of the build says.
        runs: of which the answers are; None: of all.
    """
    body = join(
        _head(about, runs),
        tag(
            "main",
            sections.banner(answers),
            sections.in_short(answers),
            sections.what_happened(answers),
            sections.who_suffers(answers),
            sections.causes(answers),
            troubles.crashes(answers),
            troubles.lag(answers),
            troubles.commits(answers),
            troubles.refusals(answers),
            sections.what_to_change(answers),
            sections.how_sure(answers, about),
            _queries(answers, about, runs),
            id="main",
        ),
    )
    has_charts = "data-chart=" in body
    texts = {
        "@POLICY@": html.escape(_policy()),
        "@TITLE@": "Consumer groups: what happened, and why",
        "@STYLE@": f"<style>{_asset('page.css')}</style>",
        "@BODY@": body,
        "@PLOTLY@": _packed() if has_charts else "",
        "@SCRIPT@": f"<script>{_asset('page.js')}</script>" if has_charts else "",
    }
    # All at once: a name may have one of the marks in it.
    return re.sub("@[A-Z]+@", lambda mark: texts[mark[0]], _asset("page.html"))


def _policy() -> str:
    """Scripts are two, known by their hashes; plotly writes style attributes."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(_asset('page.js'))} {_hash(_plotly())}",
            "style-src 'unsafe-inline'",
            "img-src data: blob:",
            "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


@functools.cache
def _asset(file: str) -> str:
    return files(__package__).joinpath("assets", file).read_text(encoding="utf-8")


@functools.cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    # A script element's text has no other line ends than these (HTML, 13.2.3.5).
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


@functools.cache
def _packed() -> str:
    # Without a time, so that the same tables make the same report.
    packed = base64.b64encode(gzip.compress(_plotly().encode(), mtime=0)).decode()
    return f'<script id="plotly" type="application/gzip">{packed}</script>'


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


# -- what it is about


def _head(about: Mapping[str, Any], runs: Sequence[str] | None) -> Html:
    links = (tag("li", tag("a", text, href=f"#{to}")) for to, text in _LINKS)
    said: list[Part] = []
    if about.get("build"):
        said += ["Build ", name(str(about["build"])), f", {about.get('outcome', '')}. "]
    if about.get("made"):
        said += [f"Made {about['made']} by kohort {about.get('kohort', '')}"]
        said += [f" ({about.get('code', '')}), Spark {about.get('spark', '')}. "]
    said += _sources(about)
    if runs is not None:
        shown = [join(name(run), " ") for run in runs[:_SOURCES]]
        more = f"and {len(runs) - _SOURCES} more" if len(runs) > _SOURCES else ""
        said += ["Only of the runs: ", *shown, more]
    return tag(
        "header",
        tag("h1", "Consumer groups: what happened, and why"),
        tag("p", *said, class_="about"),
        tag(
            "p",
            "Each number is a link to the query that gave it, with the command that"
            " asks again.",
            class_="note",
        ),
        tag("nav", tag("ul", *links), aria_label="Sections"),
        tag(
            "noscript",
            tag("p", "Charts need JavaScript; all of their numbers are in tables."),
        ),
    )


def _sources(about: Mapping[str, Any]) -> list[Part]:
    inputs = about.get("inputs") or {}
    paths = [
        PurePosixPath(str(file.get("path", ""))).name
        for ingest in (inputs.get("ledger") or {}).values()
        for file in ingest.get("files", ())
    ]
    paths += [f"stream {each}" for each in inputs.get("streams") or {}]
    if not paths:
        return []
    shown = [join(name(path), " ") for path in paths[:_SOURCES]]
    more = f"and {len(paths) - _SOURCES} more " if len(paths) > _SOURCES else ""
    return ["Events from ", *shown, more]


# -- where the numbers come from


def _queries(
    answers: Answers, about: Mapping[str, Any], runs: Sequence[str] | None
) -> Html:
    build = about.get("build")
    parts = [
        _one(query, answers.get(query.name), build, runs) for query in BY_NAME.values()
    ]
    return section(
        "Where each number comes from",
        tag(
            "p",
            "Queries over the tables of this build, as Spark's SQL has them. The"
            " commands need the lake: ",
            tag("code", "--lake DIR", class_="name"),
            ".",
        ),
        *parts,
        id_="queries",
    )


def _one(
    query: Query, answer: Answer | None, build: object, runs: Sequence[str] | None
) -> Html:
    command = ["kohort", "pipeline", "query", "--name", query.name]
    if build:
        command += ["--build", str(build)]
    for run in runs or ():
        command += ["--run", run]
    columns = answer.columns if answer is not None else ()
    rows = len(answer) if answer is not None else 0
    meanings = tag(
        "dl",
        *(
            part
            for column in columns
            for part in (
                tag("dt", tag("code", column)),
                tag("dd", query.meaning(column)),
            )
        ),
    )
    return tag(
        "article",
        tag("h3", query.name, id=f"q-{query.name}", tabindex="-1"),
        tag("p", query.says, f" It gave {rows:,} rows."),
        tag("pre", shlex.join(command), class_="command", tabindex="0"),
        tag(
            "details",
            tag("summary", "The query"),
            tag("pre", sql(query.name, runs), tabindex="0"),
        ),
        tag(
            "details", tag("summary", f"What its {len(columns)} columns mean"), meanings
        ),
        class_="query",
    )
