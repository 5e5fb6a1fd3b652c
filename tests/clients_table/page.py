"""The page of the table, docs/reference/clients-under-power.md, from results."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from tests.clients_table.clients import CLIENTS, JOIN, SYNC, Bound
from tests.clients_table.judge import DEFECTS, Facts, verdict, words
from tests.clients_table.rows import BY_NAME, ROWS, Row
from tests.workers.libraries import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

PAGE = ROOT / "docs" / "reference" / "clients-under-power.md"
HERE = ROOT / "tests" / "clients_table"
_FIELDS = {each.name for each in fields(Facts)}

Result = dict[str, Any]


def facts_of(result: Result) -> Facts:
    """The facts of a line of results."""
    return Facts(**{name: value for name, value in result.items() if name in _FIELDS})


def said(row: Row, results: Sequence[Result]) -> str:
    """The cell: the words of the most frequent outcome, and other outcomes."""
    if not results:
        return ""
    played = [facts_of(each) for each in results]
    kinds = [verdict(each, row) for each in played]
    ((kind, _), *others) = Counter(kinds).most_common()
    shown = [f for f, k in zip(played, kinds, strict=True) if k == kind]
    # The middle one, by time, of the plays with the same outcome.
    middle = sorted(shown, key=lambda each: each.back_s)[len(shown) // 2]
    text = words(middle, row)
    for other, count in others:
        shown_other = f"**{other}**" if other in DEFECTS else other
        text += f"; {shown_other} in {count} of {len(played)}"
    return text


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(each) + " |" for each in lines]


def table(results: Sequence[Result]) -> list[str]:
    """All sections, a row for each power or fault, a column for each library."""
    by_cell: Mapping[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        by_cell[result["row"], result["client"]].append(result)
    played = {row for row, _ in by_cell}
    lines: list[str] = []
    for section in dict.fromkeys(row.section for row in ROWS):
        rows = [r for r in ROWS if r.section == section and r.name in played]
        if not rows:
            continue
        head = ["", *(client.name for client in CLIENTS)]
        cells = [
            [
                _label(row, by_cell),
                *(said(row, by_cell[row.name, client.name]) for client in CLIENTS),
            ]
            for row in rows
        ]
        lines += ["", f"### {section}", "", *_table(head, cells)]
    return lines


def _label(row: Row, by_cell: Mapping[tuple[str, str], list[Result]]) -> str:
    """The row's text, with a mark if Kafka never answers with that error."""
    notes = [
        note
        for client in CLIENTS
        for result in by_cell.get((row.name, client.name), [])
        for note in result.get("notes", [])
    ]
    return row.text + (" \\*" if any("never" in note for note in notes) else "")


_LANGUAGES = {"py": "python", "js": "javascript"}
ABOUT_S = 1.5
"""A rule about holds is confirmed by a measurement that differs by less."""


def hold_table(results: Sequence[Result]) -> list[str]:
    """The longest holds, and their measurements.

    Raises:
        AssertionError: a measurement contradicts the rule.
    """
    lines: list[str] = []
    for state, text in ((JOIN, "JoinGroup"), (SYNC, "SyncGroup")):
        rows = []
        for client in CLIENTS:
            bound = client.bears[state]
            measured: list[str] = []
            for result in results:
                if (result["client"], result["hold"]) != (client.name, state):
                    continue
                is_default = result["settings"] == "default"
                rule_s = bound.default_s if is_default else _by_rule(bound, result)
                borne_s = result["borne_s"]
                assert abs(rule_s - (borne_s or 0.0)) < ABOUT_S, (rule_s, result)
                if is_default:
                    measured.insert(0, f"**{borne_s:.0f} s** by default")
                else:
                    settings = "/".join(
                        f"{value / 1000:.0f}" for value in result["timeouts"].values()
                    )
                    measured.append(f"{borne_s:.0f} s with {settings}")
            rows.append([client.name, bound.rule, "; ".join(measured)])
        head = [f"{state}, {text} parked", "borne for", "measured"]
        lines += ["", *_table(head, rows)]
    return lines


def _by_rule(bound: Bound, result: Result) -> float:
    session, poll, request = (value / 1000 for value in result["timeouts"].values())
    return bound.seconds(session, poll, request)


def write(results: Sequence[Result], path: Path = PAGE) -> None:
    """Writes the page.

    Args:
        results: lines of results, of cells and of holds.
        path: of the page.
    """
    cells = [each for each in results if "row" in each]
    holds = [each for each in results if "hold" in each]
    unknown = {each["row"] for each in cells} - set(BY_NAME)
    assert not unknown, f"results of rows that are no more: {unknown}"
    versions = ", ".join(f"{each.name} {each.version()}" for each in CLIENTS)
    text = (HERE / "page.md").read_text()
    for mark, made in {
        "VERSIONS": versions,
        "TABLES": "\n".join(table(cells)).strip(),
        "HOLDS": "\n".join(hold_table(holds)).strip(),
    }.items():
        text = text.replace(f"{{{{{mark}}}}}", made)
    path.write_text(re.sub(r"\{\{(\w+)\.(py|js)\}\}", _source, text))


def _source(found: re.Match[str]) -> str:
    """The source of a reproduction."""
    name, language = found.groups()
    source = (HERE / "reproductions" / f"{name}.{language}").read_text()
    return f"```{_LANGUAGES[language]}\n{source.rstrip()}\n```"
