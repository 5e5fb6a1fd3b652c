"""The demo as lines of text, for pipes and logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kohort.control.demo.state import Kind, Seen
from kohort.control.terminal import counted


async def print_lines(seen: Seen, echo: Callable[[str], object]) -> None:
    """Prints scenes and events as they happen, until cancelled."""
    setup = seen.setup
    echo(
        f"kohort demo: a broker on {seen.address}, topic {setup.topic!r} with "
        f"{setup.partitions} partitions, group {setup.group!r} ({setup.assignor}) "
        f"with {setup.members} members at most"
    )
    printed = 0
    try:
        while True:
            printed = _print_events(seen, printed, echo)
            await seen.change()
    finally:
        _print_events(seen, printed, echo)


def _print_events(seen: Seen, printed: int, echo: Callable[[str], object]) -> int:
    fresh = seen.event_count - printed
    for event in list(seen.events)[max(0, len(seen.events) - fresh) :]:
        if event.kind is Kind.SCENE:
            echo(f"\n{event.text}. {event.detail}")
        else:
            echo(f"{event.at:6.1f} s  {event.text}{event.detail}")
    return seen.event_count


def summary(seen: Seen, *, is_whole: bool) -> Iterator[str]:
    """The run in numbers, and next steps for the reader."""
    counts = seen.counts
    produced, read = sum(counts.produced.values()), sum(counts.read.values())
    yield ""
    if not is_whole:
        yield "Stopped."
    text = f"{seen.now():.0f} s, {counted(max(0, seen.generation), 'generation')}"
    if counts.crash_noticed_s is not None:
        text += f", a crash noticed after {counts.crash_noticed_s:.1f} s"
    if counts.refused:
        text += f", {counted(counts.refused, 'member')} refused"
    yield f"{text}."
    if not seen.guests:
        text = f"{produced} records produced, {min(read, produced)} consumed"
        if counts.twice:
            text += (
                f", {counts.twice} of them twice: consumed but not committed yet "
                f"when their partition moved to another member"
            )
        yield f"{text}."
    yield ""
    yield "Next:"
    yield "  kohort serve                    a broker for your own clients"
    yield "  kohort demo --assignor range    the same with eager rebalances"
    yield "  kohort demo --stay --port 9092  join with your own client"
    yield "docs/tutorial/demo.md explains each scene."
