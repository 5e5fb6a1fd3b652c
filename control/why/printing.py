"""A group's history in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kohort.control.commands.rendering import printable
from kohort.control.tables import terminal
from kohort.control.why.findings import MOST_EVIDENCE, Finding
from kohort.control.why.history import History
from kohort.control.why.model import Outcome, Rebalance


def show(history: History, last: int | None = None) -> None:
    """Prints rebalances, the oldest first, and then what is to be learnt from them."""
    _print(lambda console: _show(console, history, last))


def show_groups(histories: Sequence[History]) -> None:
    """Prints a line for each group: what `kohort why GROUP` would begin with."""

    def lines(console: Console) -> None:
        for each in histories:
            codes = ", ".join(dict.fromkeys(f.code for f in each.findings))
            _say(console, _text(each.summary() + (f" [{codes}]" if codes else "")))

    _print(lines)


def _print(show_on: Callable[[Console], None]) -> None:
    console = terminal()
    # All at once: rich would end the command if nobody reads it.
    with console.capture() as captured:
        show_on(console)
    lines = captured.get().splitlines()
    click.echo("\n".join(line.rstrip() for line in lines))


def _show(console: Console, history: History, last: int | None) -> None:
    _say(console, _text(history.summary(), "bold"))
    rebalances = history.rebalances
    shown = rebalances if last is None else rebalances[max(len(rebalances) - last, 0) :]
    if shown:
        console.print()
        rows = [(_clock(each.started_ns), _words(history, each)) for each in shown]
        _show_rows(console, rows, 0)
    for finding in history.findings:
        console.print()
        _show_finding(console, finding)


def _words(history: History, each: Rebalance) -> Text:
    is_usual = each.outcome in {Outcome.COMPLETED, Outcome.EMPTIED}
    return _text(history.explain(each), "" if is_usual else "yellow")


def _text(text: str, style: str = "") -> Text:
    """Text with what clients have said in it: it moves no cursor, and ends no line."""
    return Text(printable(text).replace("\n", "\\n"), style=style)


def _show_finding(console: Console, finding: Finding) -> None:
    style = "bold red" if finding.is_sure else "bold yellow"
    _say(console, _text(f"{finding.title} [{finding.code}]", style))
    _say(console, _text(finding.advice), 2)
    shown = finding.evidence[:MOST_EVIDENCE]
    rows = [(_clock(each.at_ns), _text(each.text)) for each in shown]
    if len(finding.evidence) > len(shown):
        rows.append(("", Text(f"and {len(finding.evidence) - len(shown)} more")))
    _show_rows(console, rows, 2)


def _say(console: Console, text: Text, indent: int = 0) -> None:
    """A paragraph: indented as a whole on a terminal, else one line."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, indent)))
    else:
        console.print(Text(" " * indent) + text, soft_wrap=True)


def _show_rows(console: Console, rows: Iterable[tuple[str, Text]], indent: int) -> None:
    """Times and what was then: in two columns on a terminal, else a line each."""
    if not console.is_terminal:
        for time, text in rows:
            _say(console, Text(f"{time}  ") + text, indent)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for time, text in rows:
        table.add_row(time, text)
    console.print(Padding(table, (0, 0, 0, indent)))


def _clock(time_ns: int) -> str:
    """A time in UTC, as `kohort consume` prints them, to the millisecond."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03}Z"
