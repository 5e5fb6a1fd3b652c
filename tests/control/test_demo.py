"""``kohort demo`` in a separate process, as users run it."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest
from tests.commands import KOHORT, environment
from tests.patience import PATIENCE_S

DEMO = [*KOHORT, "demo", "--pace", "0"]
ORDER = [
    r"1/6  The first members join\. .*KIP-134",
    r"s  ana joins",
    r"s  a rebalance starts: Empty -> PreparingRebalance",
    r"s  Stable after [\d.]+ s: generation 1, 12 partitions assigned",
    r"2/6  One more member joins\. .*KIP-429",
    r"s  cleo joins",
    r"s  ana revokes ",
    r"s  cleo is assigned ",
    r"s  Stable .*generation \d+, 4 of 12 partitions moved",
    r"3/6  A member crashes\. ",
    r"s  ben crashes: its connections close without LeaveGroup",
    r"s  the broker removes ben, [\d.]+ s after the crash",
    r"4/6  New members fill the group\. ",
    r"s  dan joins",
    r"s  eve joins",
    r"s  eve is assigned ",
    r"5/6  One too many\. .*KIP-389",
    (
        r"s  finn is refused: Consumer group is already at its full capacity\. "
        r"\(GROUP_MAX_SIZE_REACHED, 77 on the wire\)"
    ),
    r"6/6  A member leaves\. ",
    r"s  ana leaves: it sends LeaveGroup",
    r"s  ana revokes ",
    r"s  Stable",
    r"generations, a crash noticed after [\d.]+ s, 1 member refused",
    r"(\d+) records produced, \1 consumed",
    r"kohort serve",
]


def numbers(text: str) -> list[int]:
    """The numbers of "0-3, 7"."""
    found: list[int] = []
    for part in text.split(", "):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


@contextlib.contextmanager
def playing(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A demo that is read line by line; whatever happens, it is gone afterwards."""
    process = subprocess.Popen(
        [*DEMO, *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Its output up to a line with this text."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} is not in {lines}")


def test_it_says_what_happens() -> None:
    """Everything in its order; in each generation each partition has one owner."""
    with playing() as process:
        out, err = process.communicate(timeout=PATIENCE_S * 2)
    assert (process.returncode, err) == (0, ""), out
    position = 0
    for pattern in ORDER:
        found = re.compile(pattern).search(out, position)
        assert found, (pattern, out)
        position = found.end()
    generations = re.findall(
        r"generation \d+, .* (?:partitions assigned|moved): (.*)", out
    )
    assert len(generations) >= 5
    for shares in generations:
        owned = [
            number
            for share in shares.split("; ")
            for number in numbers(share.partition(" ")[2])
        ]
        assert sorted(owned) == list(range(12)), shares


@pytest.mark.long
@pytest.mark.parametrize(
    "when",
    ["kohort demo", "ana joins", "a rebalance starts", "Stable", "ben crashes"],
)
def test_it_can_be_stopped_at_any_time(when: str) -> None:
    """Ctrl-C ends it in good order: no traceback, no warning, a summary."""
    with playing() as process:
        read_until(process, when)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert "\nStopped.\n" in out


def test_nobody_reads_on() -> None:
    """`kohort demo | head -1` ends without an error."""
    with playing() as process:
        read_until(process, "kohort demo")
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        process.wait(PATIENCE_S)


def test_the_terminal_is_given_back() -> None:
    """It uses the terminal's alternate screen; Ctrl-C restores the first one."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        DEMO,
        env=environment(TERM="xterm-256color", COLUMNS="80", LINES="24"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        while b"[PreparingRebalance]" not in shown:
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        # The end of the terminal is an error, on Linux.
        with contextlib.suppress(OSError):
            while found := os.read(ours, 65536):
                shown += found
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"\x1b[?1049h" in shown
    _, _, after = shown.rpartition(b"\x1b[?1049l")
    assert b"Stopped." in after
    assert b"Traceback" not in shown
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l")
