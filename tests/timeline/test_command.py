"""`kohort timeline`, and the document that it makes, without a browser."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.timeline import streams

from kohort.control.commands.timeline import timeline
from kohort.control.timeline.packing import Packing
from kohort.control.timeline.page import SCRIPTS, Page, file_page, live_page

DATA = re.compile(
    r'<script id="(\w+)" type="application/\w+">(.*?)</script>', re.DOTALL
)


@pytest.fixture
def events() -> list[streams.Event]:
    """Two groups."""
    return streams.story()


@pytest.fixture
def file(events: list[streams.Event], tmp_path: Path) -> Path:
    """A file of events, as the broker writes it."""
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def run(*arguments: str | Path, code: int = 0) -> Result:
    """The command, and that it ends with this code."""
    done = CliRunner().invoke(timeline, [str(each) for each in arguments])
    assert done.exit_code == code, done.output
    return done


def packed(html: str) -> list[streams.Event]:
    """The events that a page brings along."""
    data = dict(DATA.findall(html))["events"]
    lines = gzip.decompress(base64.b64decode(data)).splitlines()
    return [json.loads(line) for line in lines]


def test_a_file_becomes_a_page(
    events: list[streams.Event], file: Path, tmp_path: Path
) -> None:
    """All events are in it, and it says how many."""
    page = tmp_path / "page.html"
    done = run(file, "-o", page)
    assert done.output == f"{page}: {len(events)} events\n"
    assert packed(page.read_text()) == events
    assert "<title>events.jsonl - kohort timeline</title>" in page.read_text()


def test_the_page_has_the_words_of_kohort_why(file: Path, tmp_path: Path) -> None:
    """Each rebalance has an account with its sentence."""
    page = tmp_path / "page.html"
    run(file, "-o", page)
    events = packed(page.read_text())
    told = {
        event["started_sequence"]: event["words"]
        for event in events
        if event["kind"] == "rebalance_account"
    }
    started = [e["sequence"] for e in events if e["kind"] == "rebalance_started"]
    assert {*started} == told.keys()
    assert all(words.endswith(".") for words in told.values())


def test_accounts_that_are_missing_are_added(
    events: list[streams.Event], file: Path, tmp_path: Path
) -> None:
    """A broker that was killed has not written the last ones: they have no number."""
    text = file.read_text().splitlines(keepends=True)
    is_account = [event["kind"] == "rebalance_account" for event in events]
    rest = [line for line, is_it in zip(text, is_account, strict=True) if not is_it]
    file.write_text("".join(rest))
    page = tmp_path / "page.html"
    done = run(file, "-o", page)
    assert done.output == f"{page}: {len(rest)} events\n"
    added = packed(page.read_text())[len(rest) :]
    written = [event for event in events if event["kind"] == "rebalance_account"]
    assert len(added) == len(written)
    assert not any("sequence" in event for event in added)
    assert all(event["words"] for event in added)
    assert {event["unread_ns"] for event in added} == {
        event["unread_ns"] for event in written
    }


def test_pipes_work(file: Path) -> None:
    """- is stdin and stdout."""
    runner = CliRunner()
    done = runner.invoke(timeline, ["-", "-o", "-"], input=file.read_bytes())
    assert done.exit_code == 0
    assert done.stdout.startswith("<!doctype html>")
    assert "events" in done.stderr


def test_events_in_any_order_make_the_same_page(
    events: list[streams.Event], tmp_path: Path
) -> None:
    """A dump of the topic of events has each group's in order, and some twice."""
    second = [{**event, "run": "d4e5f6"} for event in events]
    later = 10**15
    for event in second:
        event["time_ns"] += later
    lines = [json.dumps(event) + "\n" for event in [*events, *second]]
    pages = []
    for shuffled in (lines, [*reversed(lines), lines[7]]):
        (tmp_path / "events.jsonl").write_text("".join(shuffled))
        run(tmp_path / "events.jsonl", "-o", tmp_path / "page.html")
        pages.append((tmp_path / "page.html").read_text())
    assert packed(pages[0]) == [*events, *second]
    assert pages[0] == pages[1]


def test_a_pipe_that_takes_little_at_a_time_gets_all(file: Path) -> None:
    """Python without buffers writes a part, and says how much."""
    done = subprocess.run(
        [sys.executable, "-u", "-m", "kohort", "timeline", "-", "-o", "-"],
        input=file.read_bytes(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.endswith(b"</html>\n")
    assert len(packed(done.stdout.decode())) == len(file.read_text().splitlines())


def test_a_reader_that_goes_away_is_told_of(file: Path) -> None:
    """One line, exit code 1, and nothing about exceptions that were ignored."""
    command = [sys.executable, "-u", "-m", "kohort", "timeline", str(file), "-o", "-"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10) == b"<!doctype "
        process.stdout.close()
        assert process.stderr.read() == b"kohort: -: Broken pipe\n"
    assert process.returncode == 1


def test_the_events_are_not_replaced_by_their_page(file: Path) -> None:
    """By whichever path it is named."""
    link = file.with_suffix(".html")
    link.symlink_to(file)
    before = file.read_bytes()
    for output in (file, link):
        done = run(file, "-o", output, code=2)
        assert "would overwrite the events" in done.output
    assert file.read_bytes() == before


def test_a_page_that_cannot_be_written(file: Path, tmp_path: Path) -> None:
    """One line says why."""
    done = run(file, "-o", tmp_path / "none" / "page.html", code=1)
    assert "page.html: No such file" in done.output


def test_a_file_without_events(tmp_path: Path) -> None:
    """It is empty, or has half a line: no page is made."""
    for text in ("", "\n", '{"schema": 1, "kind'):
        (tmp_path / "events.jsonl").write_text(text)
        done = run(tmp_path / "events.jsonl", "-o", tmp_path / "page.html", code=1)
        assert "events.jsonl: there are no events" in done.output
    assert not (tmp_path / "page.html").exists()


def test_one_event_is_enough(events: list[streams.Event], tmp_path: Path) -> None:
    """A broker that has just started."""
    (tmp_path / "events.jsonl").write_text(json.dumps(events[0]))
    run(tmp_path / "events.jsonl", "-o", tmp_path / "page.html")
    assert packed((tmp_path / "page.html").read_text()) == events[:1]


def test_of_some_groups_only(file: Path, tmp_path: Path) -> None:
    """The others' events are left out, those of the broker are not."""
    page = tmp_path / "page.html"
    run(file, "-o", page, "-g", "payments")
    found = packed(page.read_text())
    assert {event.get("group") for event in found} == {"payments", None}
    assert "no events" in run(file, "-o", page, "-g", "nobody", code=1).output


def test_a_line_that_was_cut_off_is_left_out(file: Path, tmp_path: Path) -> None:
    """A broker that is killed leaves one: the page has all those before it."""
    whole = len(file.read_text().splitlines())
    with file.open("a") as end:
        end.write('{"schema": 1, "kind": "memb')
    page = tmp_path / "page.html"
    done = run(file, "-o", page)
    assert f"line {whole + 1} is cut off and was skipped" in done.output
    assert len(packed(page.read_text())) == whole


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hello", "is not JSON"),
        ("[1]", "is not an event"),
        ('{"kind": "heartbeat", "schema": 1}', "has no run"),
        ('{"kind": "heartbeat", "schema": 2}', "of schema version 2"),
        ('{"kind": "heartbeat", "schema": 0}', "this kohort reads version 1"),
        ('{"kind": "heartbeat"}', "of schema version null"),
        ("[" * 100_000, "is not JSON"),
        ("\xff", "is not JSON"),
    ],
)
def test_what_is_no_event_is_refused(file: Path, line: str, says: str) -> None:
    """With the number of the line, and no page is written."""
    text = file.read_text()
    file.write_text(f"{line}\n{text}")
    page = file.with_suffix(".html")
    done = run(file, "-o", page, code=1)
    assert "events.jsonl, line 1: " in done.output
    assert says in done.output
    assert not page.exists()


def test_what_is_refused_is_one_line(file: Path) -> None:
    """However the interpreter tidies up behind it (3.13's gzip said so aloud)."""
    page = file.with_suffix(".html")
    done = subprocess.run(
        [sys.executable, "-m", "kohort", "timeline", file, "-g", "none", "-o", page],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == "kohort: events.jsonl: there are no events of these groups\n"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """One line says so."""
    done = run(tmp_path / "none", "-o", tmp_path / "page.html", code=1)
    assert "No such file" in done.output


@pytest.mark.parametrize("page", [live_page(), Packing([]).page("none")])
def test_the_policy_lets_run_what_is_in_the_page_and_nothing_else(page: Page) -> None:
    """Each script and the style are named by their hashes; nothing is loaded."""
    (policy,) = re.findall(r'Security-Policy" content="([^"]*)"', page.html)
    policy = policy.replace("&#x27;", "'")
    assert page.headers["Content-Security-Policy"].startswith(policy)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    inline = re.findall(
        r"<(?:script|style)>(.*?)</(?:script|style)>", page.html, re.DOTALL
    )
    assert len(inline) == len(SCRIPTS) + 2  # the style, the words
    for each in inline:
        digest = base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert not re.search(r"""(?:src|href)=["'](?!#|data:,)""", page.html)
    assert not re.search(r"https?://", page.html)
    assert " style=" not in page.html


def test_the_same_events_make_the_same_page(events: list[streams.Event]) -> None:
    """Pages can be compared, and kept in a repository."""
    lines = [(json.dumps(event).encode(), event) for event in events]
    assert Packing(lines).page("x").html == Packing(lines).page("x").html


def test_names_cannot_leave_their_place() -> None:
    """A file's name and a finding are text, whatever is in them."""
    evil = "</script><script>alert(1)</script>"
    page = file_page("", name=evil, findings={evil: [{"title": evil}]})
    assert evil not in page.html


def test_all_assets_are_used() -> None:
    """The page contains all packaged assets."""
    assets = files("kohort.control.timeline").joinpath("assets")
    names = {each.name for each in assets.iterdir()}
    assert names == {*SCRIPTS, "page.css", "page.html"}
