"""``kohort run``: a command beside a broker."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.commands import KOHORT, environment, kohort
from tests.control.shell import Shell
from tests.patience import PATIENCE_S

ASKS = """
import json, os, sys, urllib.request
with urllib.request.urlopen(os.environ["KOHORT_HTTP"] + "/v1/cluster") as answer:
    shown = json.load(answer)
print(json.dumps([shown, sys.stdin.read(), dict(os.environ)]))
"""
"""Prints the cluster, its stdin, and the environment."""

WAITS = """
import signal, sys
awaited = {signal.SIGTERM, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
print("waits", flush=True)
print("got", signal.Signals(signal.sigwait(awaited)).name)
sys.exit(5)
"""
"""Ends by a signal, with exit code 5."""

LEAVES = """
import os, signal
awaited = {signal.SIGINT, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
has_left, leaves = os.pipe()
if os.fork() == 0:
    os.read(has_left, 1)
    print("waits", flush=True)
    signal.sigwait({signal.SIGINT})
    print("interrupted", flush=True)
    os._exit(0)
os.setpgrp()
os.write(leaves, b".")
print("got", signal.Signals(signal.sigwait(awaited)).name, flush=True)
"""
"""Leaves the terminal's foreground, where a child waits for SIGINT."""


FORKS = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
is_parent = os.fork()
if not is_parent:
    print(os.getppid(), os.getpid(), flush=True)
signal.sigwait({signal.SIGUSR1})
"""
"""Has a child, and ends by SIGUSR1; the child stays."""


def asked(*options: str) -> tuple[dict[str, object], str, dict[str, str]]:
    """The cluster, stdin and the environment of a command."""
    done = subprocess.run(
        [*KOHORT, "run", *options, sys.executable, "-c", ASKS],
        env=environment(),
        input="typed",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    cluster, stdin, variables = json.loads(done.stdout)
    return cluster, stdin, variables


def test_the_command_finds_the_broker() -> None:
    """Its environment has addresses of nodes and HTTP; stdin is the command's."""
    cluster, stdin, variables = asked("--nodes", "2", "--")
    nodes = cluster["nodes"]
    assert isinstance(nodes, list)
    servers = ",".join(f"{node['host']}:{node['port']}" for node in nodes)
    assert variables["KAFKA_BOOTSTRAP_SERVERS"] == servers
    # For commands of kohort's within the command.
    assert variables["KOHORT_BOOTSTRAP_SERVERS"] == servers
    assert len(nodes) == 2
    assert stdin == "typed"


@pytest.mark.long
def test_the_story_of_a_command_that_failed(tmp_path: Path) -> None:
    """Its code is kept; stderr has each group, and the page that shows them."""
    folder = tmp_path / "of" / "run"
    script = tmp_path / "script"
    tool = shlex.join(KOHORT)
    script.write_text(
        f"{tool} produce -q orders one two three four\n"
        f"{tool} consume -q orders --group billing --from-beginning -n 4\n"
        f"{tool} topics describe orders --json\n"
        "exit 3\n"
    )
    options = ["--artifacts", str(folder), "--partitions", "4"]
    done = kohort("run", *options, "--", "sh", str(script))
    assert done.returncode == 3
    *records, described = done.stdout.split("\n", 4)
    assert sorted(records) == sorted(["one", "two", "three", "four"])
    (topic,) = json.loads(described)
    assert len(topic["partitions"]) == 4
    title, _, summary, *_, page = done.stderr.splitlines()
    assert title == "kohort: sh exited with code 3; 1 group:"
    # The member's leave is the second one.
    assert summary.startswith("group billing: 2 rebalances in ")
    delivery = "delivery: 4 records: each delivered once and committed"
    assert delivery in done.stderr.splitlines()
    assert page == f"kohort: timeline: {folder / 'timeline.html'}"
    assert "kohort timeline" in (folder / "timeline.html").read_text()
    why = kohort("why", "billing", "--events", str(folder / "events.jsonl"))
    assert summary in why.stdout
    assert "window_opened" not in (folder / "events.jsonl").read_text()


def test_a_command_without_a_group() -> None:
    """A client that never came to this broker is a likely cause of the failure."""
    done = kohort("run", "sh", "-c", "exit 1")
    line = "kohort: sh exited with code 1; the broker had no groups\n"
    assert (done.returncode, done.stderr) == (1, line)


def test_the_end_by_a_signal() -> None:
    """The exit code is 128 more than the signal's number, as that of a shell."""
    done = kohort("run", "sh", "-c", "kill -9 $$")
    assert done.returncode == 128 + signal.SIGKILL
    # Python ignores SIGPIPE; the command does not.
    assert kohort("run", "sh", "-c", "kill -PIPE $$").returncode == 128 + signal.SIGPIPE


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_the_commands(number: signal.Signals) -> None:
    """The command decides how it ends, and the broker is there until then."""
    with subprocess.Popen(
        [*KOHORT, "run", sys.executable, "-c", WAITS],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waits\n"
            process.send_signal(number)
            out, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert (process.returncode, out) == (5, f"got {number.name}\n")


@pytest.mark.skipif(sys.platform != "linux", reason="the guard needs /proc")
@pytest.mark.long
@pytest.mark.parametrize("how", ["it ends", "it is killed", "kohort is killed"])
def test_no_process_stays_behind(how: str) -> None:
    """The command and its children end with the broker, also by SIGKILL."""
    with subprocess.Popen(
        [*KOHORT, "run", sys.executable, "-c", FORKS],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        parent, child = map(int, process.stdout.readline().split())
        killed = process.pid if how == "kohort is killed" else parent
        os.kill(killed, signal.SIGUSR1 if how == "it ends" else signal.SIGKILL)
        try:
            # Its end comes when no process has the pipe any more.
            process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            for each in (parent, child):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)


@pytest.mark.long
def test_ctrl_c_counts_once() -> None:
    """A terminal sends its signal to the command, too, so it is not passed on."""
    master, slave = os.openpty()
    # The first terminal that the leader of a session opens becomes its terminal.
    opens = f'exec "$@" < {os.ttyname(slave)}'
    try:
        with subprocess.Popen(
            ["sh", "-c", opens, "sh", *KOHORT, "run", sys.executable, "-c", LEAVES],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "waits\n"
                os.write(master, b"\x03")
                assert process.stdout.readline() == "interrupted\n"
                process.send_signal(signal.SIGUSR1)
                out, _ = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
    finally:
        os.close(master)
        os.close(slave)
    assert (process.returncode, out) == (0, "got SIGUSR1\n")


def test_commands_that_cannot_be_run(tmp_path: Path) -> None:
    """The exit codes are those of shells."""
    done = kohort("run", "--", "no-such-command", "--help")
    line = "kohort: no-such-command: command not found\n"
    assert (done.returncode, done.stderr) == (127, line)
    plain = tmp_path / "plain"
    plain.write_text("")
    done = kohort("run", "--", str(plain))
    line = f"kohort: {plain}: Permission denied\n"
    assert (done.returncode, done.stderr) == (126, line)


def test_a_wrong_setting(shell: Shell) -> None:
    """The command does not begin."""
    line = shell.refused("run", "--set", "group.max.siez=5", "echo", "begun", code=2)
    assert line.startswith("group.max.siez=5 (--set): unknown setting")
