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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kohort.pipeline.report import charts, formats
from kohort.pipeline.report.comparison import METRICS, Comparison
from kohort.pipeline.report.queries import Answer, Answers, Row
from kohort.pipeline.report.verdict import assigns, verdict

PARTS: Final = 12
"""Groups that have a part: those of the queries about a group."""
SETTINGS: Final = 6
"""Settings on the first screen: those that would have saved the most."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The contents of the page of a sweep.

    Attributes:
        goals: each goal and the settings that meet it.
        charts: captions and charts, of `charts.curves`.
        headings: of the table.
        texts: the number of its columns that are texts, on the left.
        rows: its cells.
    """

    goals: Sequence[tuple[str, str]]
    charts: Sequence[tuple[str, Markup]]
    headings: Sequence[str]
    texts: int
    rows: Sequence[Sequence[str]]


_MORE: Final = {
    "culprits": "Members that caused rebalances",
    "lags": "Lag that rebalances built up",
    "delivery": "Records sent again or skipped, and commits that went back",
    "refusals": "Refused joins",
    "transactions": "Transactions",
    "initial_delay": "Savings by the initial delay (KIP-134)",
    "run_metrics": "Runs",
    "quality": "Checks of the data",
}
"""Tables at the end, by their queries, which are closed until someone opens them."""
_UNKNOWN: Final = dict.fromkeys(("build", "outcome", "made", "kohort", "engine"))


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
    names = [row["group"] for row in answers["groups"]][:PARTS]
    members, gaps = [*answers["group_members"]], [*answers["group_gaps"]]
    all_runs = answers["run_metrics"].rows
    seen = {row["run"] for row in (*members, *gaps)}
    is_utc = len(seen) < 2
    if not is_utc:
        starts = {row["run"]: row["first_ns"] for row in all_runs}
        members, gaps = charts.times(members, starts), charts.times(gaps, starts)
    shown = [row for row in all_runs if row["run"] in seen]
    return _document(
        "report.html",
        title="Consumer groups: what their rebalances cost",
        answers=answers,
        groups=[{**row, "assigns": assigns(row)} for row in answers["groups"]],
        about={**_UNKNOWN, **about},
        compared=compared,
        settings=settings(answers["findings"]),
        members=members,
        gaps=gaps,
        axis=charts.axis(shown, is_utc=is_utc),
        names=names,
        more={query: text for query, text in _MORE.items() if answers[query].rows},
        command=_command(about.get("build"), runs),
    )


def settings(findings: Iterable[Row]) -> list[Row]:
    """The findings that advise a setting, each change once, largest savings first."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in findings:
        if row["setting"]:
            change = row["group"], row["setting"], row["suggested"]
            found.setdefault(change, row)
    return [*found.values()]


def comparison_page(answer: Answer, compared: Comparison) -> str:
    """The page of a comparison.

    Args:
        answer: of the query ``run_metrics``.
        compared: the comparison of its rows.
    """
    title = f"Runs compared by {formats.visible(compared.by)}"
    return _document("compare.html", title=title, answer=answer, compared=compared)


def sweep_page(title: str, told: str, body: Sweep) -> str:
    """The page of a sweep.

    Args:
        title: its heading.
        told: how to read it.
        body: its recommendations, charts and table.
    """
    return _document("sweep.html", title=title, told=told, sweep=body)


def filled(columns: Iterable[str], rows: Iterable[Row]) -> list[str]:
    """The columns that say something: not only null, 0 or empty."""
    rows = [*rows]
    return [column for column in columns if any(row[column] for row in rows)]


def _document(body: str, **values: Any) -> str:
    """An HTML document, from a template that extends ``page.html``."""
    return _environment().get_template(body).render(values).lstrip()


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    formats_of_values = (
        *(formats.count, formats.real, formats.share, formats.many, formats.moment),
        *(formats.clock, formats.name, formats.setting, formats.cell, formats.heading),
        *(formats.is_number, formats.visible),
    )
    environment.globals |= {
        **{each.__name__: each for each in formats_of_values},
        "charts": charts,
        "filled": filled,
        "metrics": METRICS,
        "most_settings": SETTINGS,
        "verdict": verdict,
        "policy": _policy,
        "style": functools.partial(_asset, "page.css"),
        "script": functools.partial(_asset, "page.js"),
        "plotly": _packed,
    }
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


def _command(build: object, runs: Sequence[str] | None) -> str:
    """The command that asks a query of the report again, but for its name."""
    command = ["kohort", "pipeline", "query"]
    if build:
        command += ["--build", str(build)]
    for run in runs or ():
        command += ["--run", run]
    return shlex.join([*command, "--name"])
