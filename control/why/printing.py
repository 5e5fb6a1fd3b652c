"""A group's history in the terminal."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kohort.control.tables import terminal
from kohort.control.why.findings import MOST_EVIDENCE, Finding
from kohort.control.why.history import History
from kohort.control.why.model import Outcome


def show(history: History, last: int | None = None) -> None:
    """Prints rebalances, the oldest first, and then what is to be learnt from them."""
    console = terminal()
    console.print(Text(history.summary(), style="bold"))
    rebalances = history.rebalances
    shown = rebalances if last is None else rebalances[max(len(rebalances) - last, 0) :]
    if shown:
        console.print()
        rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        rows.add_column(no_wrap=True, style="dim")
        rows.add_column(overflow="fold")
        for each in shown:
            words = Text(history.explain(each))
            if each.outcome not in {Outcome.COMPLETED, Outcome.EMPTIED}:
                words.stylize("yellow")
            rows.add_row(_clock(each.started_ns), words)
        console.print(rows)
    for finding in history.findings:
        console.print()
        _show_finding(finding)


def _show_finding(finding: Finding) -> None:
    console = terminal()
    style = "bold red" if finding.is_sure else "bold yellow"
    console.print(Text(f"{finding.title} [{finding.code}]", style=style))
    console.print(Padding(Text(finding.advice), (0, 0, 0, 2)))
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    rows.add_column(no_wrap=True, style="dim")
    rows.add_column(overflow="fold")
    for each in finding.evidence[:MOST_EVIDENCE]:
        rows.add_row(_clock(each.at_ns), Text(each.text))
    more = len(finding.evidence) - MOST_EVIDENCE
    if more > 0:
        rows.add_row("", Text(f"and {more} more"))
    console.print(Padding(rows, (0, 0, 0, 2)))


def _clock(time_ns: int) -> str:
    """A time of day, in UTC, as `kohort consume` prints them."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{rest // 1_000_000:03}"
