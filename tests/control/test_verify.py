"""``kohort verify``: its findings and its output, and that it changes nothing."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.broker.test_records_over_the_wire import batch
from tests.broker.test_restart import broker_on, killed
from tests.control.test_import import KAFKA
from tests.log.corruptions import compare, contents, make
from tests.log.storage import temporary_folder
from tests.wire.client import connected
from tests.wire.requests import produce

from kohort.broker import telemetry
from kohort.broker.server import Broker
from kohort.control.commands.verify import verify

LOG = "00000000000000000000.log"


@pytest.fixture(autouse=True)
def _settings() -> Any:
    """The command sets up logs for its process, which here is that of all tests."""
    yield
    telemetry.configure(level="warning")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory of several topics that was stopped in order."""
    path = tmp_path / "data"
    make(path, is_clean=True)
    return path


def run(*args: object) -> Result:
    """The command, as in a terminal; it leaves the directory as it is."""
    path = Path(str(args[0]))
    before = contents(path)
    result = CliRunner().invoke(verify, [str(arg) for arg in args])
    assert contents(path) == before
    return result


def changed(path: Path, position: int) -> None:
    """One bit of a file is another."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crash"])
def test_its_prediction_of_a_start_is_true(is_clean: bool) -> None:
    """Whatever is damaged, a start is refused if and only if verify says so.

    If verify calls it sound, a start serves all records, and none that was aborted.
    """
    with temporary_folder() as folder:
        counts = compare(Path(folder), 25, 3, is_clean=is_clean)
    assert not [found for found in counts if found.startswith("lost")]
    # The others do no harm: a snapshot that is not needed, the mark of a clean stop.
    assert counts["seen"] > 12
    assert counts["refused"] > 4


def test_a_sound_directory(directory: Path) -> None:
    """One line, and the stop."""
    result = run(directory)
    assert result.exit_code == 0
    first, last = result.stdout.splitlines()
    assert first.endswith("MB: sound")
    assert last == "the last run stopped cleanly; a start is possible"


def test_a_damaged_batch(directory: Path) -> None:
    """The offsets that are lost are named; those behind them count as whole."""
    # In the second one.
    changed(directory / "plain-0" / LOG, 100)
    result = run(directory)
    assert result.exit_code == 1
    assert f"damaged: plain-0/{LOG}: from byte 79 on: a batch" in result.stdout
    assert "offset 1 is lost" in result.stdout
    assert "plain-0: offsets 0 to 40, 39 whole records" in result.stdout
    assert "a start does not notice the damaged records" in result.stdout


def test_the_end_of_an_older_segment(directory: Path) -> None:
    """The first lost offset is where the file ends, the last before the next one."""
    path = directory / "plain-0" / LOG
    path.write_bytes(path.read_bytes()[:-1])
    result = run(directory, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["damaged"], document["start"]) == (True, "refused")
    (report,) = [each for each in document["partitions"] if each["findings"]]
    assert (report["name"], report["records"]) == ("plain-0", 39)
    assert report["start"] == "refused"
    found = report["findings"][0]
    assert found["file"] == f"plain-0/{LOG}"
    assert (found["damage"], found["next_whole_offset"]) == (True, None)


def following(value: bytes) -> bytes:
    """The next batch of plain-0, which has 40 records."""
    return struct.pack(">q", 40) + batch(value)[8:]


@pytest.mark.parametrize(
    ("tail", "is_damage"),
    [
        (following(b"next")[:30], False),
        (following(b"long" * 100)[:80], False),
        (following(b"long" * 100)[:80] + following(b"next"), True),
        (following(b"next")[:-1] + b"!", True),
    ],
    ids=["half a header", "half a batch", "a batch behind", "wrong CRC"],
)
def test_the_end_that_a_kill_leaves(
    directory: Path, tail: bytes, *, is_damage: bool
) -> None:
    """Half a batch that was not acknowledged is no damage; a start cuts it off."""
    (directory / ".kafka_cleanshutdown").unlink()
    last = max(directory.glob("plain-0/*.log"))
    last.write_bytes(last.read_bytes() + tail)
    result = run(directory)
    assert result.exit_code == is_damage
    how = "damaged" if is_damage else "note"
    assert f"{how}: plain-0/{last.name}: from byte" in result.stdout
    assert f"a start cuts {last.name} off behind byte" in result.stdout


def test_an_epoch_that_the_batches_do_not_have(directory: Path) -> None:
    """The first batch of another epoch than its checkpoint says is named."""
    path = directory / "plain-0" / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n1\n0 0\n"
    path.write_text("0\n2\n0 0\n3 2\n")
    result = run(directory)
    assert result.exit_code == 1
    assert f"damaged: plain-0/{path.name}: the batch at offset 2 in" in result.stdout
    assert "has epoch 0, and by this file it is 3" in result.stdout


async def test_a_directory_that_is_in_use(tmp_path: Path) -> None:
    """It changes all the time; a copy of it can be verified, and is sound."""
    async with broker_on(tmp_path / "data") as broker, connected(broker) as client:
        broker.cluster.create_topic("t", 1)
        await client.call("Produce", 9, produce((0, batch(b"x"))))
        result = run(tmp_path / "data")
        assert result.exit_code == 2
        assert "in use by another process: stop it, or verify a copy" in result.stderr
        copy = killed(tmp_path / "data")
    assert run(copy).exit_code == 0
    async with Broker(data_dir=copy):
        pass


@pytest.mark.parametrize("name", ["nothing", "empty", "file"])
def test_directories_that_cannot_be_verified(tmp_path: Path, name: str) -> None:
    """That is no verdict: another exit code, and one line."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    result = run(tmp_path / name)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_a_directory_of_kafka(tmp_path: Path) -> None:
    """A directory of Kafka's is sound, until something is changed in it."""
    assert run(KAFKA).exit_code == 0
    path = Path(shutil.copytree(KAFKA, tmp_path / "kafka"))
    changed(next(path.glob(f"*-20/{LOG}")), 80)
    result = run(path)
    assert result.exit_code == 1
    assert f"damaged: __consumer_offsets-20/{LOG}: from byte 0 on" in result.stdout


def test_one_partition(directory: Path) -> None:
    """The folder of a partition will do: only its own files are known."""
    assert run(directory / "compacted-0").exit_code == 0
    last = max((directory / "compacted-0").glob("*.log"))
    changed(last, 70)
    assert run(directory / "compacted-0").exit_code == 1
