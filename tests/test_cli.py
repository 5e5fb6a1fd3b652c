"""The command, as users run it: in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from kohort.broker import telemetry
from kohort.broker.cli import cli
from kohort.broker.config_keys import BROKER_KEYS

ROOT = Path(__file__).parent.parent
KOHORT = [sys.executable, "-m", "kohort"]
PATIENCE_S = 30.0
"""For processes that work; nothing waits for so long."""


def environment(**variables: str) -> dict[str, str]:
    """The environment of a user who has set nothing but these."""
    found = {n: v for n, v in os.environ.items() if not n.startswith("KOHORT_")}
    return found | {"PYTHONWARNINGS": "error"} | variables


def kohort(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command that ended."""
    return subprocess.run(
        [*KOHORT, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def refused(*arguments: str, code: int, **variables: str) -> str:
    """The one line on stderr of a command that ends with this code."""
    done = kohort(*arguments, **variables)
    assert done.returncode == code, done
    assert not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("kohort: ")
    return line.removeprefix("kohort: ")


class Serving:
    """A ``kohort serve`` that accepts connections; its stderr goes to a file."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.errors = errors
        self.line = process.stdout.readline()
        found = re.fullmatch(
            r"kohort accepts connections on (\S+):(\d+) \(pid (\d+)\)\n", self.line
        )
        assert found, (self.line, self.logged())
        self.host, self.port, self.pid = found[1], int(found[2]), int(found[3])

    @property
    def address(self) -> str:
        """What clients connect to."""
        return f"{self.host}:{self.port}"

    def logged(self) -> str:
        """What it wrote to stderr until now."""
        self.errors.seek(0)
        return self.errors.read()

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """(exit code, the rest of stdout, stderr) after a signal."""
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, self.logged()


@contextlib.contextmanager
def serving(
    *arguments: str, command: tuple[str, ...] = (), **variables: str
) -> Iterator[Serving]:
    """A broker on a free port; whatever happens, it is gone afterwards."""
    # A pipe that nobody reads would stop a broker that has much to say.
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*(command or KOHORT), "serve", "--port", "0", *arguments],
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with process:
            try:
                yield Serving(process, errors)
            finally:
                process.kill()


def test_version() -> None:
    """`kohort --version` says which one it is."""
    done = kohort("--version")
    assert re.fullmatch(r"kohort \d+\.\d+\.\d+\n", done.stdout)
    assert done.returncode == 0


def test_help_of_every_command() -> None:
    """Each command says what it is for, by -h too."""
    for name, command in cli.commands.items():
        assert command.help, name
        done = kohort(name, "-h")
        assert done.returncode == 0
        assert done.stdout.startswith(f"Usage: kohort {name} ")


def test_the_script_is_the_module() -> None:
    """`kohort`, as pip installs it, is `python -m kohort`."""
    script = Path(sys.executable).with_name("kohort")
    by_script = subprocess.check_output([script, "--help"], text=True)
    assert by_script == kohort("--help").stdout


def test_a_wrong_configuration_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    """The line says which key, which value, from where, and what is wrong."""
    assert refused("serve", "--set", "group.max.siez=5", code=2) == (
        "group.max.siez=5 (--set): no such key; did you mean group.max.size?"
    )
    assert refused("serve", code=2, KOHORT_GROUP_MAX_SIZE="0") == (
        "group.max.size=0 (environment, KOHORT_GROUP_MAX_SIZE): must be at least 1"
    )
    file = tmp_path / "kohort.toml"
    file.write_text("group.max.size = 'many'")
    assert refused("serve", "--config", str(file), code=2) == (
        f"group.max.size=many ({file}): must be a whole number of 32 bits"
    )
    assert "no TOML" in refused("serve", "--config", __file__, code=2)
    assert "No such file" in refused("serve", "--config", "missing.toml", code=2)
    assert refused("serve", "--advertise", "here", code=2) == (
        "--advertise 'here': must be host:port"
    )


def test_config_lists_what_has_an_effect() -> None:
    """`kohort config` prints values as they would be, and which are no defaults."""
    done = kohort("config", "--set", "group.max.size=5")
    lines = done.stdout.splitlines()
    assert "group.max.size=5  # default: 2147483647" in lines
    assert "num.partitions=1" in lines
    assert len(lines) == sum(key.used for key in BROKER_KEYS.values())
    assert len(kohort("config", "--all").stdout.splitlines()) == len(BROKER_KEYS)
    assert "no such key" in refused("config", "--set", "a=b", code=2)


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """The address of somebody who answers one connection with these bytes."""
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
        (b"", "the connection was closed"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "that is no Kafka"),
        (bytes.fromhex("0000000a 00000001 0023 00000000"), "error code 35"),
    ],
)
def test_ping_of_somebody_else(answer: bytes, why: str) -> None:
    """What is no broker, or none that serves, is not taken for one."""
    with answering(answer) as address:
        line = refused("ping", "--bootstrap", address, code=1)
    assert line == f"{address} does not answer: {why}"


def test_ping_of_a_broker_that_hangs() -> None:
    """A broker that accepts and says nothing is not healthy."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        line = refused("ping", "--bootstrap", address, "--timeout", "0.1", code=1)
    assert line == f"{address} does not answer: timed out"


def test_ping_of_nobody() -> None:
    """Where nobody listens, ping says so."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        line = refused("ping", "--bootstrap", address, code=1)
    assert "refused" in line
    assert "host:port" in refused("ping", "--bootstrap", "localhost", code=2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_from_start_to_end(number: int) -> None:
    """One line when it accepts, answers, and exit code 0 when it is told to stop."""
    with serving() as broker:
        assert broker.host == "127.0.0.1"
        assert broker.pid == broker.process.pid
        done = kohort("ping", "--bootstrap", broker.address)
        assert done.returncode == 0, done
        assert done.stdout.startswith(f"{broker.address} answers in ")
        assert broker.end(number) == (0, "", "")


def test_serve_as_the_script() -> None:
    """`kohort serve` serves as `python -m kohort serve` does."""
    script = str(Path(sys.executable).with_name("kohort"))
    with serving(command=(script,)) as broker:
        assert kohort("ping", "--bootstrap", broker.address).returncode == 0


def test_serve_stops_with_clients_connected() -> None:
    """Connections that are open, idle or in the middle of a frame, hold nothing up."""
    with serving() as broker:
        address = ("127.0.0.1", broker.port)
        with socket.create_connection(address), socket.create_connection(address) as c:
            c.sendall(b"\0\0\1\0\0")
            code, _, err = broker.end()
        assert (code, "Traceback" in err) == (0, False)


def test_a_taken_port_is_one_line_and_exit_code_1() -> None:
    """Whoever starts a second broker learns what is in its way."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = refused("serve", "--port", str(port), code=1)
    assert line == (
        f"cannot listen on 127.0.0.1:{port}: the port is taken; "
        "--port 0 takes a free one"
    )


def test_an_address_that_is_not_ours_is_one_line_and_exit_code_1() -> None:
    """192.0.2.1 is nobody's (RFC 5737), and so is the name."""
    line = refused("serve", "--port", "0", "--host", "192.0.2.1", code=1)
    assert line == "cannot listen on 192.0.2.1:0: Cannot assign requested address"
    line = refused("serve", "--port", "0", "--host", "nowhere.invalid", code=1)
    assert line.startswith("cannot listen on nowhere.invalid:0: ")


def test_serve_advertises_what_it_is_told_to() -> None:
    """Clients behind a proxy or outside of a container are sent to another address."""
    with serving("--advertise", "broker.example:7777") as broker:
        assert broker.address == "broker.example:7777"


def test_keys_without_effect_are_one_line_each() -> None:
    """A key of Kafka's that kohort does not use is accepted, and is said to be so."""
    with serving("--set", "num.io.threads=9", KOHORT_BROKER_RACK="r1") as broker:
        code, _, err = broker.end()
    events = [json.loads(line) for line in err.splitlines()]
    assert code == 0
    assert {(e["event"], e["level"], e["key"], e["value"]) for e in events} == {
        ("key_has_no_effect_yet", "warning", "num.io.threads", "9"),
        ("key_has_no_effect_yet", "warning", "broker.rack", "r1"),
    }


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_idle_broker_is_small() -> None:
    """Under 45 MB of memory, after it has answered."""
    with serving() as broker:
        assert kohort("ping", "--bootstrap", broker.address).returncode == 0
        status = Path(f"/proc/{broker.pid}/status").read_text()
    resident_kb = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])  # type: ignore[index]
    assert resident_kb < 45_000


def test_a_start_loads_nothing_that_serving_does_not_need() -> None:
    """What is slow to import, and every API's messages, come with their first use."""
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
    assert not loaded & {"construct", "cramjam", "crc32c", "structlog"}
    assert not {m for m in loaded if m.startswith("kohort.protocol.apis.k")}


@pytest.fixture
def plain_telemetry() -> Iterator[None]:
    """Leaves the process's telemetry as it was."""
    yield
    telemetry.configure()


def test_logs_are_json_where_nobody_looks(
    plain_telemetry: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """One object per line: what, how bad, who, when, and the fields; bytes too."""
    telemetry.configure("auto")
    telemetry.get_logger("groups").info("joined", group="g\n", metadata=b"\xff")
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
    """A line for people; what clients sent cannot break out of it."""
    telemetry.configure("pretty")
    telemetry.get_logger("groups").warning("joined", client_id="a\nb\x1b[31m")
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(
        r"warning +\] joined +\[groups\] client_id='a\\nb\\x1b\[31m'", line
    )


def test_levels(plain_telemetry: None, capsys: pytest.CaptureFixture[str]) -> None:
    """What is below the level is dropped, from the moment that it is set."""
    log = telemetry.get_logger("groups")
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
    """A fault of ours can be found."""
    telemetry.configure("json")
    try:
        raise LookupError("no such thing")  # noqa: TRY301 - the scene
    except LookupError:
        telemetry.get_logger("broker").exception("request_failed", api="Fetch")
    event = json.loads(capsys.readouterr().err)
    assert event["level"] == "error"
    assert event["exception"].endswith("LookupError: no such thing")


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    """Serving starts without structlog, construct and tomllib."""
    code = (
        "import sys; import kohort.broker.cli, kohort.broker.server;"
        "print({'structlog', 'construct', 'tomllib', 'difflib', 'rich'}"
        " & set(sys.modules))"
    )
    done = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert done == "set()\n"


def examples() -> dict[str, str]:
    """The programs of the README, by the first module that they import."""
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    return {block.split()[1]: block for block in blocks}


def test_the_readme_has_an_example_for_each_client() -> None:
    """The next scene has something to play."""
    assert set(examples()) == {
        "aiokafka",
        "confluent_kafka",
        "kafka",
        "kohort.broker.server",
    }


@pytest.mark.parametrize("name", ["aiokafka", "confluent_kafka", "kafka"])
def test_the_readmes_examples(name: str) -> None:
    """Each example prints the record that it produced."""
    program = examples()[name]
    assert len(program.splitlines()) <= 6
    with serving("--set", "group.initial.rebalance.delay.ms=0") as broker:
        program = program.replace("127.0.0.1:9092", broker.address)
        if "await" in program:
            program = textwrap.indent(program, "    ")
            program = f"import asyncio\nasync def f():\n{program}\nasyncio.run(f())"
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.stdout == "b'one'\n", (done.stderr, broker.logged())


def test_the_readmes_broker_in_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    """`async with Broker(...)` serves, and says where."""
    program = textwrap.indent(examples()["kohort.broker.server"], "    ")
    scope: dict[str, object] = {"asyncio": asyncio}
    exec(f"async def f():\n{program}\nasyncio.run(f())", scope)
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", capsys.readouterr().out)
