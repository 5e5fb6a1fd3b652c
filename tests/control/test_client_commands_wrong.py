"""The commands that are clients, where something is wrong."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest
from tests.commands import KOHORT, environment, serving
from tests.control.shell import At, Shell
from tests.patience import PATIENCE_S


@pytest.mark.parametrize(
    "command",
    [
        ["topics", "list"],
        ["groups", "describe", "g"],
        ["consume", "t"],
        ["consume", "t", "-g", "g"],
        ["produce", "t", "x"],
    ],
)
def test_no_broker(command: list[str], shell: Shell) -> None:
    """The last line names the addresses; the user sets the timeout."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        line = shell.fails(*command, "-b", address, "--timeout", "0.5")
    assert address in line


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("topics list -b nowhere", "bootstrap.servers: 'nowhere' is not host:port"),
        ("consume t -X group.idd=1", "did you mean group.id?"),
        ("topics list -X foo.bar=1", "foo.bar: admin clients have no such setting"),
        ("topics list -X foo", "-X 'foo': must be KEY=VALUE"),
        ("topics list -X client.id=a -X client_id=b", "-X client_id: is set twice"),
        ("topics list -b a:1 -X bootstrap.servers=b:1", "-b sets it"),
        ("consume t -X fetch.max.wait.ms=x", "fetch.max.wait.ms: 'x' is not a whole"),
        ("consume t -X group.id=g", "use --group"),
        ("consume", "TOPIC: name one at least"),
        ("consume t -g g --offset 1", "--offset: not in a group"),
        ("consume t -g g -p 1", "--partition: not in a group"),
        ("consume t --offset x", "must be earliest, latest, N or -N"),
        ("consume t --offset 1 --from-beginning", "only one of them"),
        ("consume t --from-time x", "'x' is not a time"),
        ("consume t -f %q", "has '%q'; known are"),
        ("consume t --json --raw", "--json: not with"),
        ("consume --pattern x", "--pattern: needs --group"),
        ("consume --pattern ( -g g", "--pattern '(': "),
        ("consume t --assignor range", "need --group"),
        ("consume t -g g -X isolation.level=x", "isolation.level: 'x' is not one of"),
        ("produce t -H x", "--header 'x': must be NAME=VALUE"),
        ("produce t --json -k x", "--json: not with"),
        ("produce t -k x -K :", "--key: not with --key-separator"),
        ("produce t x --acks 1 -X acks=all", "-X acks: another option sets it"),
        ("produce t x -X enable.idempotence=true --acks 1", "acks: 1 is not possible"),
        ("groups describe", "GROUP: give at least one, or --all"),
        ("groups reset-offsets g --all-topics", "give one of --to-earliest"),
        ("groups reset-offsets g --to-latest", "--topic: give at least one"),
        ("groups reset-offsets g --all-topics --by-duration x", "not a duration"),
        ("groups remove-members g", "--member, --instance: give at least one"),
        ("topics alter t", "give --partitions, --config or --delete-config"),
        ("topics create t --config x", "--config 'x': must be KEY=VALUE"),
    ],
)
def test_a_command_that_is_wrong(command: str, why: str, shell: Shell) -> None:
    """Exit code 2, before any broker is asked; the line names the option or key."""
    assert why in shell.fails(*command.split(), code=2)


def test_settings_in_a_file(name: str, there: Shell, at: At, tmp_path: Path) -> None:
    """They are properties, as Kafka's own tools take them; -X goes before them."""
    file = tmp_path / "client.properties"
    address = at["KOHORT_BOOTSTRAP_SERVERS"]
    file.write_text(f"# where\nbootstrap.servers = {address}\nclient.id=file\n\n")
    there.done("topics", "list", "-F", str(file))
    file.write_text("client.id\n")
    line = there.fails("topics", "list", "-F", str(file), code=2)
    assert line == f"{file}, line 1: must be KEY=VALUE"
    file.write_text("nonsense=1\n")
    assert there.fails("topics", "list", "-F", str(file), code=2).startswith(
        "nonsense: "
    )


def test_topics_that_there_are_not(name: str, there: Shell) -> None:
    """Reading does not create them: without a group it fails, a member waits."""
    line = there.fails("consume", name)
    assert f"topic {name!r}" in line
    ended = there.run("consume", name, "-g", name, "--until-end")
    assert ended.code == 0
    assert ended.err.startswith(f"kohort: topic {name!r} does not exist yet\n")
    there.fails("topics", "describe", name)
    there.done("topics", "create", name, "--partitions", "1")
    line = there.fails("consume", name, "-p", "1")
    assert line == f"topic {name!r}, partition 1: the topic has 1 partitions"


def test_streams_that_are_closed(there: Shell, at: At) -> None:
    """Sockets do not take their places."""
    command = " ".join(KOHORT)
    for text, code in (
        (f"{command} topics list <&- 2>&-", 0),
        (f"{command} topics list >&-", 1),
    ):
        ended = subprocess.run(
            ["sh", "-c", text],
            env=environment(**at),
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == code


def test_the_environment_is_no_configuration_of_the_broker(at: At) -> None:
    """KOHORT_BOOTSTRAP_SERVERS does not affect `kohort serve`."""
    elsewhere = at["KOHORT_BOOTSTRAP_SERVERS"]
    with serving(KOHORT_BOOTSTRAP_SERVERS=elsewhere) as broker:
        assert broker.address != elsewhere


def test_serving_loads_nothing_of_it() -> None:
    """The broker starts as soon as before there were these commands."""
    text = (
        "import sys, kohort.control.commands.serve\n"
        "wrong = {'kohort.client', 'kohort.control.kafka', 'rich'}\n"
        "assert not wrong & set(sys.modules), wrong & set(sys.modules)"
    )
    subprocess.run([KOHORT[0], "-c", text], check=True)
