"""Renders the report: one HTML document that loads nothing from anywhere.

The templates have all text; values are escaped there. plotly.js is in the document
once, packed by gzip; the page unpacks it, and its policy (Content-Security-Policy)
runs only scripts with one of the two hashes that it names.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kohort.pipeline.event_schema import WORDS
from kohort.pipeline.report import affected, charts, formats, group_charts, run_charts
from kohort.pipeline.report.comparison import METRICS, Comparison
from kohort.pipeline.report.compiled import Compiled
from kohort.pipeline.report.queries import BY_NAME, Answer, Answers, sql

_NUMBERS: Final = (
    formats.count,
    formats.real,
    formats.seconds,
    formats.share,
    formats.moment,
    formats.hour,
    str,
)
"""Formats of numbers: cells with one of them stand right, and link to their query."""

_UNKNOWN: Final = dict.fromkeys(
    ("build", "outcome", "made", "kohort", "engine", "options")
)


def page(
    answers: Answers,
    *,
    about: Mapping[str, Any],
    runs: Sequence[str] | None = None,
    compared: Comparison | None = None,
) -> str:
    """The report.

    Args:
        answers: of all queries.
        about: the lineage of the build.
        runs: the runs that the answers are of; None: all.
        compared: the comparison to show; None: none.
    """
    return _document(
        "report.html",
        "Consumer groups: rebalances and their causes",
        answers,
        about,
        runs,
        affected=affected.affected(answers),
        compared=compared,
    )


def comparison_page(
    answer: Answer,
    compared: Comparison,
    *,
    about: Mapping[str, Any],
    runs: Sequence[str] | None = None,
) -> str:
    """The page of a comparison.

    Args:
        answer: of the query ``run_metrics``.
        compared: the comparison of its rows.
        about: the lineage of the build.
        runs: the runs that the answer is of; None: all.
    """
    return _document(
        "compare.html",
        f"Runs compared by {formats.visible(compared.by)}",
        {"run_metrics": answer},
        about,
        runs,
        compared=compared,
    )


def _document(
    body: str,
    title: str,
    answers: Answers,
    about: Mapping[str, Any],
    runs: Sequence[str] | None,
    **more: Any,
) -> str:
    """An HTML document: the body's template in the frame of ``page.html``."""
    templates = _environment()
    made = templates.get_template(body).render(
        answers=answers,
        queries={name: BY_NAME[name] for name in answers},
        about={**_UNKNOWN, **about},
        runs=runs,
        sources=_sources(about),
        commands={name: _command(name, about.get("build"), runs) for name in answers},
        **more,
    )
    frame = templates.get_template("page.html")
    return frame.render(title=title, body=Markup(made)).lstrip()  # noqa: S704 - escaped above


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.bytecode_cache = Compiled(environment)
    environment.globals |= {
        **{each.__name__: each for each in _NUMBERS},
        "number_formats": _NUMBERS,
        "numbers": formats.Numbers,
        "name": formats.name,
        "day": formats.day,
        "because": affected.because,
        "words": WORDS,
        "names_of_causes": affected.names_of_causes,
        "charts": charts,
        "group_charts": group_charts,
        "run_charts": run_charts,
        "metrics": METRICS,
        "setting": formats.setting,
        "text_of_query": formats.said,
        "with_intervals": formats.with_intervals,
        "sql": sql,
        "policy": _policy,
        "style": functools.partial(_asset, "page.css"),
        "script": functools.partial(_asset, "page.js"),
        "plotly": _packed,
    }
    environment.filters |= {"listed": formats.listed, "name": formats.name}
    return environment


def _policy() -> str:
    """Two scripts run, known by their hashes; plotly writes style attributes."""
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
def _asset(file: str) -> Markup:
    text = files(__package__).joinpath("assets", file).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - a file of ours


@functools.cache
def _plotly() -> str:
    script = files("plotly").joinpath("package_data", "plotly.min.js")
    # Line ends are \n, as in a script element's text (HTML, 13.2.3.5).
    return script.read_text(encoding="utf-8")


@functools.cache
def _packed() -> str:
    # Without a time, so that the same tables make the same report.
    return base64.b64encode(gzip.compress(_plotly().encode(), 4, mtime=0)).decode()


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _sources(about: Mapping[str, Any]) -> list[str]:
    """The files and topics that the events came from."""
    return [PurePosixPath(each).name for each in about.get("sources", ())]


def _command(query: str, build: object, runs: Sequence[str] | None) -> str:
    """The command that asks a query again."""
    command = ["kohort", "pipeline", "query", "--name", query]
    if build:
        command += ["--build", str(build)]
    for run in runs or ():
        command += ["--run", run]
    return shlex.join(command)
