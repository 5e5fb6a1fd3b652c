"""A group's history in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kohort.broker.events.account import Account, Outcome
from kohort.broker.events.findings.finding import MOST_EVIDENCE, Finding
from kohort.control.kafka.times import shown_time
from kohort.control.tables import print_at_once
from kohort.control.terminal import printable
from kohort.control.why.history import History

NS_PER_MS = 1_000_000


def show(history: History, last: int | None = None, *, err: bool = False) -> None:
    """Prints rebalances, the oldest first, and then findings.

    Args:
        history: the group's history.
        last: shows only this many rebalances, the last ones; None for all.
        err: whether to print to stderr.
    """
    print_at_once(lambda console: _show(console, history, last), err=err)


def show_groups(histories: Sequence[History]) -> None:
    """Prints a line for each group: the first line of `kohort why GROUP`."""

    def lines(console: Console) -> None:
        for each in histories:
            codes = ", ".join(dict.fromkeys(f.code for f in each.findings))
            _print_wrapped(
                console, _text(each.summary() + (f" [{codes}]" if codes else ""))
            )

    print_at_once(lines)


def _show(console: Console, history: History, last: int | None) -> None:
    _print_wrapped(console, _text(history.summary(), "bold"))
    rebalances = history.rebalances
    shown = rebalances if last is None else rebalances[max(len(rebalances) - last, 0) :]
    if shown:
        console.print()
        rows = [
            (shown_time(each.started_ns // NS_PER_MS), _words(history, each))
            for each in shown
        ]
        _show_rows(console, rows, 0)
    for finding in history.findings:
        console.print()
        _show_finding(console, finding)


def _words(history: History, each: Account) -> Text:
    is_usual = each.outcome in {Outcome.COMPLETED, Outcome.EMPTIED}
    return _text(history.explain(each), "" if is_usual else "yellow")


def _text(text: str, style: str = "") -> Text:
    """Text in which control characters of clients' names are escaped."""
    return Text(printable(text), style=style)


def _show_finding(console: Console, finding: Finding) -> None:
    style = "bold red" if finding.is_sure else "bold yellow"
    _print_wrapped(console, _text(f"{finding.title} [{finding.code}]", style))
    _print_wrapped(console, _text(finding.advice), 2)
    if finding.setting is not None:
        _print_wrapped(console, _text(str(finding.setting)), 2)
    shown = finding.evidence[:MOST_EVIDENCE]
    rows = [(shown_time(each.at_ns // NS_PER_MS), _text(each.text)) for each in shown]
    if finding.evidence_count > len(shown):
        rows.append(("", Text(f"and {finding.evidence_count - len(shown)} more")))
    _show_rows(console, rows, 2)


def _print_wrapped(console: Console, text: Text, indent: int = 0) -> None:
    """Prints a paragraph: indented on a terminal, otherwise on one line."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, indent)))
    else:
        console.print(Text(" " * indent) + text, soft_wrap=True)


def _show_rows(console: Console, rows: Iterable[tuple[str, Text]], indent: int) -> None:
    """Prints times and texts: in two columns on a terminal, otherwise on lines."""
    if not console.is_terminal:
        for time, text in rows:
            _print_wrapped(console, Text(f"{time}  ") + text, indent)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for time, text in rows:
        table.add_row(time, text)
    console.print(Padding(table, (0, 0, 0, indent)))
