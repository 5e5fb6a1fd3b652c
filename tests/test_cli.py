"""The command, as users run it; what a process alone shows, in a separate one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.commands import kohort, serving
from tests.conformance import registry as conformance
from tests.conformance.play import play_all, probe
from tests.control.shell import Shell
from tests.patience import PATIENCE_S

from kohort.broker import telemetry
from kohort.broker.config_keys import BROKER_KEYS
from kohort.control.cli import COMMANDS, cli

ROOT = Path(__file__).parent.parent
FAST = "group.initial.rebalance.delay.ms=0"
PRODUCE = """
import sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1]})
producer.produce("orders", b"kept")
assert not producer.flush(20)
"""
CONSUME = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({
    "bootstrap.servers": sys.argv[1],
    "group.id": "shop",
    "auto.offset.reset": "earliest",
})
consumer.subscribe(["orders"])
print(consumer.poll(20).value())
consumer.close()
"""


def test_version() -> None:
    """`kohort --version` prints the version."""
    done = kohort("--version")
    assert re.fullmatch(r"kohort \d+\.\d+\.\d+\n", done.stdout)
    assert done.returncode == 0


HELP = """
import json, sys
import click
from click.testing import CliRunner
from kohort.control.cli import cli

def help_of(command, *names):
    for option in ("-h", "--help"):
        done = CliRunner().invoke(cli, [*names, option], prog_name="kohort")
        yield names, done.output
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from help_of(command.get_command(context, name), *names, name)

context = click.Context(cli)
found = []
for name in cli.list_commands(context):
    found += help_of(cli.get_command(context, name), name)
json.dump(found, sys.stdout)
"""
"""Prints the help of all commands, with both options. In a separate process, as click
keeps the names of a command's help option once a scene has called it alone."""


def test_help_of_every_command() -> None:
    """Each command has a whole summary and an example, by -h and --help alike."""
    printed = json.loads(subprocess.check_output([sys.executable, "-c", HELP]))
    assert len(printed) > 2 * len(COMMANDS)
    for (names, short), (_, long) in zip(printed[::2], printed[1::2], strict=True):
        usage, _, text = short.partition("\n\n")
        called = f"kohort {' '.join(names)} "
        assert usage.startswith(f"Usage: {called}")
        assert text.startswith("  "), f"{names} has no summary"
        is_group = "\nCommands:\n" in text
        assert is_group or called.strip() in text, f"{names} has no example"
        summaries = text.partition("\nCommands:\n")[2].splitlines()
        assert not [line for line in summaries if line.endswith("...")]
        assert short == long


def test_summaries_of_commands_are_whole(shell: Shell) -> None:
    """Summaries longer than a line of 80 columns would be cut off by click."""
    assert "..." not in shell.done("--help").partition("Commands:")[2]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("srve", "did you mean kohort serve?"),
        ("start", "did you mean kohort serve?"),
        ("group hld g", "did you mean kohort group hold?"),
        ("group list", "did you mean kohort groups list?"),
        ("pipeline bild", "did you mean kohort pipeline build?"),
        ("consume --topic orders", "it has no option name: kohort consume TOPIC"),
        ("why --group g", "it has no option name: kohort why GROUP"),
        ("top --bootstrap-server a:1", "uses the HTTP port: --http 127.0.0.1:9080"),
        ("topics list --http 9080", "Kafka's protocol: --bootstrap-server localhost:"),
        ("serve --bootstrap-server a:1", "it listens on --host and --port"),
        ("topics --list", "kohort topics and kohort groups have commands for this"),
    ],
)
def test_a_wrong_command_line_gets_a_hint(words: str, hint: str) -> None:
    """A typo, an option of Kafka's tools, or one of another command, gets a hint."""
    done = CliRunner().invoke(cli, words.split(), prog_name="kohort")
    assert done.exit_code == 2
    assert hint in done.output.splitlines()[-1]


def test_a_command_line_without_a_hint() -> None:
    """Without a similar name the message is click's."""
    done = CliRunner().invoke(cli, "zzz", prog_name="kohort")
    assert done.output.endswith("Error: No such command 'zzz'.\n")


def test_other_names_of_the_bootstrap_server() -> None:
    """Names in other tools are accepted; of several brokers, the first is pinged."""
    for option in ("-b", "--bootstrap", "--bootstrap-servers", "--broker-list"):
        words = ["ping", option, "127.0.0.1:1,127.0.0.1:2"]
        done = CliRunner().invoke(cli, words, prog_name="kohort")
        assert done.exit_code == 1
        assert done.output == (
            "kohort: 127.0.0.1:1 does not answer: Connection refused; "
            "`kohort serve` starts a broker\n"
        )


def test_completion_in_bash(shell: Shell) -> None:
    """Commands, options and values, as the shell's script asks for them."""
    for words, found in (
        ("kohort group ki", ["kick"]),
        ("kohort serve --clock ma", ["manual"]),
    ):
        printed = shell.done(
            _KOHORT_COMPLETE="bash_complete",
            COMP_WORDS=words,
            COMP_CWORD=str(words.count(" ")),
        )
        assert [line.split(",")[1] for line in printed.split()] == found


def test_the_script_is_the_module() -> None:
    """`kohort`, as pip installs it, is `python -m kohort`."""
    script = Path(sys.executable).with_name("kohort")
    by_script = subprocess.check_output([script, "--help"], text=True)
    assert by_script == kohort("--help").stdout


def test_a_wrong_configuration_is_one_line_and_exit_code_2(
    tmp_path: Path, shell: Shell
) -> None:
    """The line has the key, the value, its source and the fault."""
    assert shell.refused("serve", "--set", "group.max.siez=5", code=2) == (
        "group.max.siez=5 (--set): unknown setting; did you mean group.max.size?"
    )
    assert shell.refused("serve", code=2, KOHORT_GROUP_MAX_SIZE="0") == (
        "group.max.size=0 (environment, KOHORT_GROUP_MAX_SIZE): must be at least 1"
    )
    file = tmp_path / "kohort.toml"
    file.write_text("group.max.size = 'many'")
    assert shell.refused("serve", "--config", str(file), code=2) == (
        f"group.max.size=many ({file}): must be a whole number of 32 bits"
    )
    assert "no TOML" in shell.refused("serve", "--config", __file__, code=2)
    assert "No such file" in shell.refused("serve", "--config", "missing.toml", code=2)
    assert shell.refused("serve", "--advertise", "here", code=2) == (
        "--advertise 'here': must be host:port, or port=host:port"
    )


def test_config_lists_what_has_an_effect(shell: Shell) -> None:
    """`kohort config` prints the resulting values, and marks changed ones."""
    lines = shell.done("config", "--set", "group.max.size=5").splitlines()
    assert "group.max.size=5  # default: 2147483647" in lines
    assert "num.partitions=1" in lines
    assert len(lines) == sum(key.used for key in BROKER_KEYS.values())
    assert len(shell.done("config", "--all").splitlines()) == len(BROKER_KEYS)
    assert "unknown setting" in shell.refused("config", "--set", "a=b", code=2)


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """The address of a server that answers one connection with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_one() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=answer_one, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(PATIENCE_S)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "does not answer: the connection was closed"),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "answers, but does not speak Kafka's protocol",
        ),
        (
            bytes.fromhex("0000000a 00000001 0023 00000000"),
            "answers, but with error code 35",
        ),
    ],
)
def test_ping_of_somebody_else(answer: bytes, why: str, shell: Shell) -> None:
    """Other servers, and a broker that does not serve, are not taken for a broker."""
    with answering(answer) as address:
        line = shell.refused("ping", "--bootstrap-server", address, code=1)
    assert line == f"{address} {why}"


def test_ping_of_a_broker_that_hangs(shell: Shell) -> None:
    """A broker that accepts and does not answer is not healthy."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        line = shell.refused(
            "ping", "--bootstrap-server", address, "--timeout", "0.1", code=1
        )
    assert line == f"{address} does not answer: timed out"


def test_ping_of_nobody(shell: Shell) -> None:
    """Ping reports that nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        line = shell.refused("ping", "--bootstrap-server", address, code=1)
    assert "refused" in line
    assert "host:port" in shell.refused(
        "ping", "--bootstrap-server", "localhost", code=2
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_from_start_to_end(number: int, shell: Shell) -> None:
    """The broker prints one line when it is ready, answers, and exits with 0."""
    with serving() as broker:
        assert broker.host == "127.0.0.1"
        assert broker.pid == broker.process.pid
        answered = shell.done("ping", "--bootstrap-server", broker.address)
        assert answered.startswith(f"{broker.address} answers in ")
        assert broker.end(number) == (0, "", "")


def test_serve_until_stdin_closes(shell: Shell) -> None:
    """The end of stdin works like SIGTERM; input before it is ignored.

    The script that pip installs serves like the module.
    """
    with serving(
        "--until-stdin-closes",
        command=(str(Path(sys.executable).with_name("kohort")),),
        stdin=subprocess.PIPE,
        KOHORT_COMMAND="kohort",
    ) as broker:
        shell.done("ping", "--bootstrap-server", broker.address)
        out, _ = broker.process.communicate("input\n", timeout=PATIENCE_S)
        assert (broker.process.returncode, out, broker.logged()) == (0, "", "")


def test_serve_stops_with_clients_connected() -> None:
    """Open connections, idle or within a frame, do not delay the stop."""
    with serving() as broker:
        address = ("127.0.0.1", broker.port)
        with socket.create_connection(address), socket.create_connection(address) as c:
            c.sendall(b"\0\0\1\0\0")
            code, _, err = broker.end()
        assert (code, "Traceback" in err) == (0, False)


@pytest.mark.parametrize(
    "arguments",
    [["serve", "--port"], ["serve", "--port", "0", "--http"], ["demo", "--port"]],
    ids=" ".join,
)
def test_a_taken_port_is_one_line_and_exit_code_1(
    arguments: list[str], shell: Shell
) -> None:
    """The line says that the port is in use."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = shell.refused(*arguments, str(port), code=1)
    assert line == (
        f"cannot listen on 127.0.0.1:{port}: the port is taken; "
        f"{arguments[-1]} 0 picks a free one"
    )


def test_an_address_that_is_not_ours_is_one_line_and_exit_code_1(shell: Shell) -> None:
    """192.0.2.1 is unassigned (RFC 5737), and so is the name."""
    line = shell.refused("serve", "--port", "0", "--host", "192.0.2.1", code=1)
    assert line == "cannot listen on 192.0.2.1:0: Cannot assign requested address"
    line = shell.refused("serve", "--port", "0", "--host", "nowhere.invalid", code=1)
    assert line.startswith("cannot listen on nowhere.invalid:0: ")


def test_serve_advertises_what_it_is_told_to() -> None:
    """Clients behind a proxy or outside of a container get another address."""
    with serving("--advertise", "broker.example:7777") as broker:
        assert broker.address == "broker.example:7777"


def test_serve_takes_the_partitions_of_new_topics(shell: Shell) -> None:
    """As `kohort run` does; it comes before --set."""
    with serving("--partitions", "4", "--set", "num.partitions=2") as broker:
        at = ("--bootstrap-server", broker.address)
        shell.done("topics", "create", "orders", *at)
        assert "4 partitions" in shell.done("topics", "describe", "orders", *at)


def test_a_data_directory_is_for_one_process(tmp_path: Path, shell: Shell) -> None:
    """The data is restored; a second broker is refused meanwhile."""
    options = ("--data-dir", str(tmp_path / "data"), "--set", FAST)
    with serving(*options) as broker:
        line = shell.refused("serve", "--port", "0", *options, code=1)
        assert str(tmp_path / "data") in line
        subprocess.run([sys.executable, "-c", PRODUCE, broker.address], check=True)
        code, _, _ = broker.end(signal.SIGKILL)
        assert code == -signal.SIGKILL
    with serving(*options) as broker:
        program = [sys.executable, "-c", CONSUME, broker.address]
        found = subprocess.check_output(program, text=True)
        assert found == "b'kept'\n"
        code, _, _ = broker.end()
        assert code == 0
    printed = shell.done("inspect", str(tmp_path / "data"), "--group", "shop", "--json")
    (group,) = json.loads(printed)["groups"]
    assert (group["group_id"], group["state"]) == ("shop", "Empty")
    (offset,) = group["offsets"]
    assert (offset["topic"], offset["offset"]) == ("orders", 1)


def files(directory: Path) -> dict[Path, bytes | None]:
    """A directory, or a file in its place, with all contents."""
    return {
        path: path.read_bytes() if path.is_file() else None
        for path in [directory, *directory.rglob("*")]
    }


@pytest.mark.parametrize("kind", ["file", "newer"])
def test_a_data_directory_that_cannot_be_used(
    kind: str, tmp_path: Path, shell: Shell
) -> None:
    """One line says which and why, exit code 1, and nothing is touched."""
    directory = tmp_path / "data"
    if kind == "file":
        directory.write_text("here")
    else:
        with serving("--data-dir", str(directory)) as broker:
            broker.end()
        properties = directory / "meta.properties"
        text = properties.read_text()
        assert "kohort.format=1\n" in text
        properties.write_text(text.replace("kohort.format=1\n", "kohort.format=99\n"))
    before = files(directory)
    line = shell.refused("serve", "--port", "0", "--data-dir", str(directory), code=1)
    assert str(directory) in line
    assert files(directory) == before


def test_inspect_of_nothing(tmp_path: Path, shell: Shell) -> None:
    """The message names the missing directory."""
    line = shell.refused("inspect", str(tmp_path / "data"), code=1)
    assert line == f"{tmp_path / 'data'} does not exist"
    line = shell.refused("inspect", str(tmp_path), code=1)
    assert line == f"{tmp_path} has no partition of __consumer_offsets"


def test_keys_without_effect_are_one_line_each() -> None:
    """A key of Kafka's without an effect in kohort is accepted with a warning."""
    with serving("--set", "num.io.threads=9", KOHORT_BROKER_RACK="r1") as broker:
        code, _, err = broker.end()
    events = [json.loads(line) for line in err.splitlines()]
    assert code == 0
    assert {(e["event"], e["level"], e["key"], e["value"]) for e in events} == {
        ("key_has_no_effect_yet", "warning", "num.io.threads", "9"),
        ("key_has_no_effect_yet", "warning", "broker.rack", "r1"),
    }


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_idle_broker_is_small(shell: Shell) -> None:
    """Under 45 MB of memory, after it has answered."""
    with serving() as broker:
        shell.done("ping", "--bootstrap-server", broker.address)
        status = Path(f"/proc/{broker.pid}/status").read_text()
    resident_kb = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])  # type: ignore[index]
    assert resident_kb < 45_000


def test_a_start_loads_nothing_that_serving_does_not_need() -> None:
    """Slow imports, and every API's messages, are loaded on first use."""
    program = (
        "import asyncio, sys\n"
        "from kohort.broker.server import Broker\n"
        "async def main():\n"
        "    async with Broker():\n"
        "        print(*sys.modules)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"construct", "cramjam", "crc32c", "orjson", "structlog"}
    assert not loaded & {"decimal", "importlib.metadata", "json", "pathlib"}
    assert not {m for m in loaded if m.startswith("kohort.protocol.apis.k")}
    # Those of records, groups, data directories and compaction.
    assert not loaded & {
        "kohort.broker.coordinator.coordinator",
        "kohort.broker.events.render",
        "kohort.broker.log.compaction",
        "kohort.broker.log.directory",
        "kohort.broker.log.partition",
        "kohort.protocol.records",
    }


def test_serving_without_http_loads_none_of_it() -> None:
    """The library for HTTP takes longer to load than everything else together."""
    command = (sys.executable, "-X", "importtime", "-m", "kohort")
    with serving(command=command) as broker:
        _, _, err = broker.end()
    loaded = {line.rpartition("|")[2].strip() for line in err.splitlines()}
    assert "kohort.broker.server" in loaded
    assert not loaded & {"aiohttp", "http.client", "rich.console", "urllib.request"}
    # The checksum's C extension is loaded, but not the package around it.
    assert not loaded & {
        "argparse",
        "importlib.metadata",
        "kohort.broker.log.directory",
    }


SERVES = """
import asyncio, sys
from kohort.broker import telemetry
from kohort.broker.server import Broker
from kohort.control.serving import load_the_rest

async def main():
    telemetry.configure()
    telemetry.load()
    async with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        await load_the_rest()
        end = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await asyncio.sleep(0)
        before = {*sys.modules}
        print(broker.port, flush=True)
        await end
        print(*{*sys.modules} - before)

asyncio.run(main())
"""
"""Prints the modules that requests have loaded, until stdin ends."""
PLAYED = ("admin", "join", "leave", "offset_commit", "produce", "transactions_mixed")


def test_nothing_is_loaded_by_requests() -> None:
    """On a slow disk the first JoinGroup would keep all clients waiting for seconds."""
    scenarios = [
        each
        for each in conformance.load().values()
        if each.function.__module__.rpartition(".")[2] in PLAYED
    ]

    async def play(port: int) -> int:
        target = await probe("127.0.0.1", port)
        return len([played async for played in play_all(target, scenarios, 24, 1)])

    with subprocess.Popen(
        [sys.executable, "-c", SERVES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert asyncio.run(play(int(process.stdout.readline()))) > 50
            loaded, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert loaded == "\n"


@pytest.fixture
def plain_telemetry() -> Iterator[None]:
    """Leaves the process's telemetry as it was."""
    yield
    telemetry.configure()


def test_logs_are_json_where_nobody_looks(
    plain_telemetry: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """One object per line: event, level, logger, time, and the fields; also bytes."""
    telemetry.configure("auto")
    telemetry.Logger("groups").info("joined", group="g\n", metadata=b"\xff")
    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "joined",
        "level": "info",
        "logger": "groups",
        "group": "g\n",
        "metadata": "\ufffd",
    }


def test_logs_are_pretty_where_wanted(
    plain_telemetry: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A readable line; text from clients cannot break out of it."""
    telemetry.configure("pretty")
    log = telemetry.Logger("groups")
    for client_id in ("a\nb\x1b[31m", "a\x1b[31m", "a\x9b31m", "a\u202eb", "a b\x1b"):
        log.warning("joined", client_id=client_id)
        (line,) = capsys.readouterr().err.splitlines()
        shown = re.escape(repr(client_id))
        assert re.search(rf"warning +\] joined +\[groups\] client_id={shown}", line)
        assert line.isprintable()


def test_levels(plain_telemetry: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines below the level are dropped, from the moment that it is set."""
    log = telemetry.Logger("groups")
    log.debug("one")
    telemetry.configure("json", "debug")
    log.debug("two")
    telemetry.configure("json", "error")
    log.warning("three")
    log.info("four")
    log.error("five")
    log.critical("six")
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["two", "five", "six"]


def test_exceptions_are_logged_with_their_traceback(
    plain_telemetry: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The traceback shows where kohort failed."""
    telemetry.configure("json")
    try:
        raise LookupError("no such thing")  # noqa: TRY301 - the scene
    except LookupError:
        telemetry.Logger("broker").exception("request_failed", api="Fetch")
    event = json.loads(capsys.readouterr().err)
    assert event["level"] == "error"
    assert event["exception"].endswith("LookupError: no such thing")


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    """Serving starts without structlog, construct and tomllib."""
    code = (
        "import sys, kohort.control.commands.serve, kohort.broker.server;"
        "print({'aiohttp', 'structlog', 'construct', 'tomllib', 'difflib', 'rich'}"
        " & set(sys.modules))"
    )
    done = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert done == "set()\n"
