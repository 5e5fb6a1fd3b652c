"""The demo on a terminal: one picture, drawn again several times a second."""

from __future__ import annotations

import asyncio

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from kohort.control.demo.state import (
    EMPTY,
    STABLE,
    STATES,
    Event,
    Kind,
    Member,
    Seen,
    Standing,
)

FRAMES_PER_S = 12
COLOURS = (
    "deep_sky_blue1",
    "orange1",
    "medium_purple1",
    "spring_green2",
    "hot_pink",
    "gold1",
    "turquoise2",
    "light_salmon1",
    "chartreuse2",
    "light_steel_blue",
)
"""Colours of members; neighbours differ clearly, and black is legible on each."""
STANDING_STYLES = {
    Standing.JOINING: "yellow",
    Standing.CONSUMING: "green",
    Standing.CRASHED: "bold red",
    Standing.REFUSED: "bold magenta",
    Standing.LEAVING: "yellow",
    Standing.LEFT: "dim",
    Standing.FAILED: "bold red",
    Standing.GUEST: "cyan",
}
KIND_STYLES = {
    Kind.GROUP: "cyan",
    Kind.JOIN: "green",
    Kind.MOVE: "",
    Kind.CRASH: "bold red",
    Kind.REFUSAL: "bold magenta",
    Kind.LEAVE: "yellow",
}
STATE_STYLES = {EMPTY: "bold black on grey70", STABLE: "bold black on green"}
REBALANCING_STYLE = "bold black on yellow"
GONE = {Standing.CRASHED, Standing.REFUSED, Standing.LEFT}
FEWEST_EVENT_LINES = 6
MARGINS = 32
"""Columns of the table of members beside the partitions, with the space between."""


class Frame:
    """The picture of the group, as large as the terminal and no larger."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Draws it."""
        height = options.height or console.height
        head = [*_head(self.seen), *_group(self.seen, options)]
        above = sum(len(console.render_lines(each, options)) for each in head)
        # Two titles and the broker's line take three more lines.
        room = height - above - 3
        rows = _rows(self.seen, max(1, room - FEWEST_EVENT_LINES))
        room -= len(rows)
        parts: list[RenderableType] = [
            *head,
            _title("members and their partitions", options),
            _members(self.seen, rows, options),
            _title("events", options),
        ]
        events: list[RenderableType] = []
        for event in reversed(self.seen.events):
            if event.kind is not Kind.SCENE:
                shown = _event(event)
                room -= len(console.render_lines(shown, options))
                if room < 0:
                    break
                events.insert(0, shown)
        for part in [*parts, *events]:
            for each in console.render_lines(part, options, pad=False):
                yield from each
                yield Segment.line()


async def show_frames(seen: Seen, console: Console) -> None:
    """Shows the picture on the terminal's alternate screen, until cancelled."""
    # It is drawn here and not by a thread: nothing changes while it is drawn.
    with Live(Frame(seen), console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.refresh()
            await asyncio.sleep(1 / FRAMES_PER_S)


def _title(text: str, options: ConsoleOptions) -> Rule:
    line = "-" if options.ascii_only else "─"
    return Rule(Text(text, "bold"), align="left", characters=line, style="dim")


def _head(seen: Seen) -> list[RenderableType]:
    setup = seen.setup
    top = Table.grid(expand=True)
    top.add_column()
    top.add_column(justify="right")
    top.add_row(
        Text.assemble(
            (" kohort demo ", "bold reverse"),
            f"  broker {seen.address}, topic {setup.topic}",
        ),
        Text(f"{seen.now():.1f} s", "bold"),
    )
    found: list[RenderableType] = [top]
    if seen.scene is not None:
        where, title, text = seen.scene
        found.append(Text.assemble((where, "dim"), (title, "bold yellow underline")))
        found.append(Text(text))
    return found


def _group(seen: Seen, options: ConsoleOptions) -> list[RenderableType]:
    setup = seen.setup
    title = f"group {setup.group}, {setup.assignor}"
    states = Table.grid(padding=(0, 2, 0, 0))
    names, times = [], []
    for state in STATES:
        is_now = state == seen.state
        style = STATE_STYLES.get(state, REBALANCING_STYLE) if is_now else "dim"
        names.append(Text(f"[{state}]" if is_now else f" {state} ", style))
        spent = seen.seconds_in.get(state)
        times.append(Text("" if spent is None else f" {spent:.2f} s", "dim"))
    states.add_row(*names)
    states.add_row(*times)
    generation = "none yet" if seen.generation < 0 else str(seen.generation)
    facts = Text.assemble(
        " generation ",
        (generation, "bold"),
        "   members ",
        (f"{seen.size} of {setup.members}", "bold"),
    )
    if seen.last_rebalance_s is not None:
        facts.append("   last rebalance ")
        facts.append(f"{seen.last_rebalance_s:.2f} s", "bold")
    if seen.waiting is not None:
        # Some are always on their way.
        is_much = seen.waiting > setup.partitions
        facts.append("   records waiting ")
        facts.append(str(seen.waiting), "bold red" if is_much else "bold")
    return [_title(title, options), states, facts]


def _rows(seen: Seen, most: int) -> list[Member]:
    """The members that fit; departed ones are left out first."""
    rows = list(seen.members.values())
    for member in [m for m in rows if m.standing in GONE and not m.in_group]:
        if len(rows) > most:
            rows.remove(member)
    return rows[:most]


def _members(seen: Seen, rows: list[Member], options: ConsoleOptions) -> Table:
    count = seen.setup.partitions
    width = next(
        (w for w in (3, 2) if w * count <= options.max_width - MARGINS),
        1,
    )
    # As wide as KIP-389's text where it can be: nothing moves when that comes.
    strip = min(max(width * count, 48), options.max_width - MARGINS)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=8, no_wrap=True, overflow="ellipsis")
    table.add_column(width=9, no_wrap=True)
    table.add_column(width=strip, no_wrap=True, overflow="ellipsis")
    table.add_column(width=7, justify="right", no_wrap=True)
    table.add_row(
        Text("broker", "bold"),
        Text("says", "dim"),
        _owners(seen, width),
        Text("records", "dim"),
    )
    for member in rows:
        table.add_row(*_member(seen, member, width))
    return table


def _owners(seen: Seen, width: int) -> Text:
    """Owners of partitions, from the broker's last answer in state Stable."""
    text = Text()
    for partition in range(seen.setup.partitions):
        owner = seen.members.get(seen.owners.get(partition, ""))
        if owner is None:
            text.append("-".rjust(width), "dim")
            continue
        shown = owner.note if owner.standing is Standing.GUEST else owner.name
        style = _colour(owner)
        if seen.state != STABLE:
            style = "dim"
        text.append(shown[:1].upper().rjust(width), style)
    return text


def _member(seen: Seen, member: Member, width: int) -> list[Text]:
    standing = member.standing
    is_guest = standing is Standing.GUEST
    name = Text(member.note if is_guest else member.name, _colour(member))
    records = Text("" if is_guest else str(member.records))
    if standing in GONE and not member.in_group:
        name.stylize("dim")
        records.stylize("dim")
    if standing in (Standing.REFUSED, Standing.FAILED):
        strip = Text(member.note, STANDING_STYLES[standing])
        records = Text("")
    elif standing is Standing.CRASHED and not member.in_group:
        strip = Text("the session expired", "dim")
    else:
        strip = _strip(seen, member, width)
    return [name, Text(standing, STANDING_STYLES[standing]), strip, records]


def _strip(seen: Seen, member: Member, width: int) -> Text:
    text = Text()
    for partition in range(seen.setup.partitions):
        if partition not in member.partitions:
            mark, style = ".", "dim"
        elif member.standing is Standing.CRASHED:
            mark, style = "x", "bold white on red"
        else:
            # Where there is no room for a number, the place says which it is.
            mark = str(partition) if width == 3 else "#"
            style = f"bold black on {COLOURS[member.number % len(COLOURS)]}"
        text.append(mark.rjust(width), style)
    return text


def _colour(member: Member) -> str:
    return f"bold {COLOURS[member.number % len(COLOURS)]}"


def _event(event: Event) -> Table:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(width=8, justify="right")
    row.add_column()
    row.add_row(
        Text(f"{event.at:.1f} s", "dim"), Text(event.text, KIND_STYLES[event.kind])
    )
    return row
