"""``kohort consume``, ``produce``, ``groups`` and ``topics``, as users run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.commands import KOHORT, environment
from tests.control.shell import At, Shell, consuming
from tests.patience import PATIENCE_S

from kohort.broker.server import Broker

# -- transactions


def test_records_of_one_transaction(name: str, there: Shell) -> None:
    """All of them are committed; or none, if one line is no record."""
    there.done("topics", "create", name)
    send = ["produce", name, "--transactional-id", name]
    there.done(*send, "-q", "a", "b")
    ended = there.run(*send, "-K", ":", stdin=b"k:c\nbad\n")
    assert ended.code == 1
    assert f"no record to {name}: the transaction was aborted" in ended.err
    there.done(*send, "-q", "d")
    options = ["-q", "--from-beginning", "--max-messages", "3"]
    consume = ["consume", name, *options, "--isolation-level"]
    assert there.done(*consume, "read_committed") == "a\nb\nd\n"
    assert there.done(*consume, "read_uncommitted") == "a\nb\nc\n"


# -- topics


def test_a_topic_from_its_beginning_to_its_end(name: str, there: Shell) -> None:
    """Created, described, changed, listed, deleted; programs get JSON."""
    made = ["topics", "create", name, "--partitions", "2"]
    assert there.done(*made, "--config", "retention.ms=1000") == f"created {name}\n"
    assert "TOPIC_ALREADY_EXISTS" in there.fails(*made)
    assert there.done(*made, "--if-not-exists") == f"{name} exists\n"
    text = there.done("topics", "describe", name)
    assert text.splitlines()[:3] == [
        f"topic {name}: 2 partitions, 1 replica",
        "  retention.ms=1000",
        "PARTITION  LEADER  REPLICAS  ISR  START  END",
    ]
    options = ("--partitions", "3", "--config", "segment.ms=1234567")
    there.done("topics", "alter", name, *options, "--delete-config", "retention.ms")
    (topic,) = json.loads(there.done("topics", "describe", name, "--json"))
    assert topic["configs"] == {"segment.ms": "1234567"}
    assert [p["partition"] for p in topic["partitions"]] == [0, 1, 2]
    assert topic["partitions"][0] == {
        "partition": 0,
        "leader": 1,
        "replicas": [1],
        "isr": [1],
        "start": 0,
        "end": 0,
    }
    listed = json.loads(there.done("topics", "list", "--json"))
    assert {"topic": name, "partitions": 3} in [
        {key: t[key] for key in ("topic", "partitions")} for t in listed
    ]
    assert there.done("topics", "delete", name) == f"deleted {name}\n"
    assert "UNKNOWN_TOPIC" in there.fails("topics", "delete", name)
    assert there.done("topics", "delete", name, "--if-exists").endswith("not exist\n")
    assert f"topic {name!r}" in there.fails("topics", "describe", name)


def test_one_of_several_topics_fails(name: str, there: Shell) -> None:
    """The others are done, and the exit code says that not all were."""
    there.done("topics", "create", name)
    ended = there.run("topics", "create", name, f"{name}-2")
    assert (ended.code, ended.out) == (1, f"created {name}-2\n")
    assert repr(name) in ended.err


def test_a_dry_run_creates_nothing(name: str, there: Shell) -> None:
    """It prints the change without making it."""
    said = there.done("topics", "create", name, "--dry-run")
    assert said == f"would create {name}\n"
    there.fails("topics", "describe", name)


# -- records


def test_lines_in_and_out(name: str, there: Shell, at: At) -> None:
    """Keys, headers, null and bytes that are no text, there and back."""
    there.done("topics", "create", name, "--partitions", "1")
    data = b"k1:v1\nk2:-\n\xff:\xfe\x00\nk4:\xc3\xa4"
    options = ("-K", ":", "--null", "-", "-H", "h=1", "-z", "gzip", "--acks", "all")
    assert there.sent(name, data, *options) == (0, f"kohort: 4 records to {name}\n")
    ways = ("--until-end", "-q", "-f", r"%p@%o %k=%s %h\n")
    assert there.done("consume", name, *ways).splitlines() == [
        "0@0 k1=v1 h=1",
        "0@1 k2=null h=1",
        "0@2 \\xff=\\xfe\0 h=1",
        "0@3 k4=ä h=1",
    ]
    raw = subprocess.run(
        [*KOHORT, "consume", name, "-eq", "--raw", "--offset", "2", "-f", "%k|%s|"],
        env=environment(**at),
        capture_output=True,
        check=True,
    )
    assert raw.stdout == b"\xff|\xfe\x00|k4|\xc3\xa4|"
    lines = there.done("consume", name, "-eq", "--json")
    copy = f"{name}-copy"
    there.done("topics", "create", copy, "--partitions", "1")
    assert there.sent(copy, lines.encode(), "--json")[0] == 0
    assert there.done("consume", copy, "-eq", "--json") == lines.replace(
        f'"{name}"', f'"{copy}"'
    )


def test_arguments_and_files(name: str, there: Shell, tmp_path: Path) -> None:
    """Each argument is a record, and each line of each file."""
    there.done("topics", "create", name, "--partitions", "3")
    there.done("produce", name, "a b", "c", "-q", "--partition", "2", "-k", "key")
    for number in (1, 2):
        (tmp_path / f"{number}.txt").write_text(f"{number}\n{number}\n")
    files = [f"--file={tmp_path / f'{number}.txt'}" for number in (1, 2)]
    there.done("produce", name, "-q", "-p", "1", "--timestamp", "5", *files)
    shown = there.done("consume", name, "-eq", "-p", "2", "-f", r"%k %s\n")
    assert shown == "key a b\nkey c\n"
    shown = there.done("consume", name, "-eq", "-p", "1", "-f", r"%T %s\n")
    assert shown == "5 1\n5 1\n5 2\n5 2\n"


STARTS = [
    (["--offset", "earliest"], "01234"),
    (["--from-beginning"], "01234"),
    (["--offset", "latest"], ""),
    (["--offset", "3"], "34"),
    (["--offset", "-2"], "34"),
    (["--offset", "-99"], "01234"),
    (["--offset", "99"], ""),
    (["--from-time", "1970-01-01T00:00:02"], "234"),
    (["--from-time", "2001"], "34"),
    (["--from-time", "1h"], ""),
    (["-n", "2"], "01"),
]


def test_where_it_starts(name: str, there: Shell) -> None:
    """By offsets and by times; offsets out of range become the nearest valid ones."""
    rows = [{"value": str(n), "timestamp": n * 1000 - (n == 3) * 999} for n in range(5)]
    rows[3]["timestamp"] = 2001
    lines = "\n".join(map(json.dumps, rows))
    there.done("topics", "create", name, "--partitions", "1")
    assert there.sent(name, lines.encode(), "--json")[0] == 0
    for options, values in STARTS:
        found = there.done("consume", name, "-eq", "-f", "%s", *options)
        assert found == values, options


def test_a_line_that_is_no_record(name: str, there: Shell) -> None:
    """The error names it; the records before it are delivered and counted."""
    there.done("topics", "create", name, "--partitions", "1")
    code, said = there.sent(name, b"a:1\nb:2\nc\nd:4\n", "-K", ":")
    assert code == 1
    assert said.splitlines() == [
        "kohort: line 3: has no key separator",
        f"kohort: 2 records to {name}",
    ]
    code, said = there.sent(name, b'{"value": "3"}\n{"valeu": "4"}\n', "--json")
    assert (code, said.splitlines()[0]) == (
        1,
        "kohort: line 2: valeu: unknown field",
    )
    assert there.done("consume", name, "-eq", "-f", "%s") == "123"


def test_a_record_that_is_not_delivered(name: str, there: Shell) -> None:
    """The broker refuses it: the error names the line and the broker's reason."""
    options = ("--partitions", "1", "--config", "max.message.bytes=1000")
    there.done("topics", "create", name, *options)
    data = b"small\n" + b"x" * 5_000 + b"\n"
    code, said = there.sent(name, data, "-X", "linger.ms=0", "-X", "batch.size=0")
    assert code == 1
    first, last = said.splitlines()
    assert first.startswith("kohort: line 2: Produce at ")
    assert "MESSAGE_TOO_LARGE" in first
    assert last == f"kohort: 1 of 2 records to {name}"


def test_a_producer_that_is_told_to_stop(name: str, there: Shell, at: At) -> None:
    """Records read so far are delivered; the exit code says that some are not."""
    there.done("topics", "create", name, "--partitions", "1")
    with subprocess.Popen(
        [*KOHORT, "produce", name],
        env=environment(**at),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write("one\ntwo\nthr")
        process.stdin.flush()
        # It does not wait for its end: others see the lines meanwhile.
        seen = there.done("consume", name, "-q", "--from-beginning", "-n", "2")
        assert seen == "one\ntwo\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        # stdin stays open meanwhile: its end would be that of a third line.
        said = process.stderr.read()
    assert process.returncode == 1
    assert said == f"kohort: interrupted\nkohort: 2 records to {name}\n"


# -- groups


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_member_comes_and_goes(number: int, name: str, there: Shell, at: At) -> None:
    """It commits the printed records, leaves at once, and exits with 0."""
    there.done("topics", "create", name, "--partitions", "2")
    there.sent(name, b"a\nb\n", "-p", "1")
    options = ("-g", name, "--from-beginning", "--group-instance-id", "i")
    with consuming(name, *options, "-X", "client.id=me", **at) as member:
        assert member.stdout is not None
        assert member.stdout.readline() + member.stdout.readline() == "a\nb\n"
        group = there.group(name)
        (described,) = group["members"]
        assert (group["state"], group["assignor"]) == ("Stable", "range")
        assert (group["type"], group["group_epoch"]) == ("classic", None)
        assert described["client_id"] == "me"
        assert described["group_instance_id"] == "i"
        assert described["partitions"] == [[name, 0], [name, 1]]
        text = there.done("groups", "describe", name)
        assert f"  coordinator  {at['KOHORT_BOOTSTRAP_SERVERS']} (node 1)" in text
        assert f"{name} 0-1\n" in text
        assert {p["owner"] for p in group["partitions"]} == {described["member_id"]}
        line = there.fails("groups", "delete", name)
        assert f"group {name!r}" in line
        assert "NON_EMPTY_GROUP" in line
        reset = ("groups", "reset-offsets", name, "--all-topics", "--to-earliest")
        assert "its state is Stable" in there.fails(*reset, "--execute")
        member.send_signal(number)
        out, said = member.communicate(timeout=PATIENCE_S)
    assert (member.returncode, out, said) == (0, "", "kohort: 2 records\n")
    # A static member stays, by design, until it is removed.
    assert there.done("groups", "remove-members", name, "--instance", "i")
    group = there.group(name)
    assert (group["state"], group["members"], group["lag"]) == ("Empty", [], 0)
    assert [p["committed"] for p in group["partitions"]] == [0, 2]
    assert there.done("groups", "delete", name) == f"deleted {name}\n"
    assert "GROUP_ID_NOT_FOUND" in there.fails("groups", "describe", name)


def test_a_consumer_group_is_shown(name: str, there: Shell, at: At) -> None:
    """Its type and epochs, and its members with their epochs and target assignments."""
    there.done("topics", "create", name, "--partitions", "2")
    there.sent(name, b"a\n", "-p", "1")
    options = ("-g", name, "--from-beginning", "-X", "group.protocol=consumer")
    with consuming(name, *options, **at) as member:
        assert member.stdout is not None
        assert member.stdout.readline() == "a\n"
        group = there.group(name)
        assert (group["type"], group["assignor"]) == ("consumer", "uniform")
        epoch = group["group_epoch"]
        assert group["target_assignment_epoch"] == epoch
        (described,) = group["members"]
        assert described["member_epoch"] == epoch
        assert described["target_partitions"] == [[name, 0], [name, 1]]
        text = there.done("groups", "describe", name)
        assert f"  epoch        {epoch} (target assignment: {epoch})\n" in text
        assert f"{epoch}  {name} 0-1  {name} 0-1\n" in text
        listed = json.loads(there.done("groups", "list", "--json"))
        assert {row["group"]: row["type"] for row in listed}[name] == "consumer"
        member.send_signal(signal.SIGINT)
        member.communicate(timeout=PATIENCE_S)
    assert there.group(name)["state"] == "Empty"


def test_a_full_group(name: str, there: Shell, at: At) -> None:
    """One line has KIP-389's message; the members stay in the group."""
    there.done("topics", "create", name, "--partitions", "2")
    member = (name, "-g", name, "-X", "heartbeat.interval.ms=100")
    with consuming(*member, **at), consuming(*member, **at):
        ended = there.run("consume", name, "-g", name)
        assert ended.code == 1
        (line,) = ended.err.splitlines()
        assert "Consumer group is already at its full capacity." in line
        assert f"group {name!r}" in line
        assert len(there.group(name)["members"]) == 2


def test_partitions_that_move(name: str, there: Shell, at: At) -> None:
    """Both members print their assigned and revoked partitions on stderr."""
    there.done("topics", "create", name, "--partitions", "2")
    quick = ("-X", "heartbeat.interval.ms=100", "--assignor", "range")
    member = (name, "-g", name, *quick)
    with consuming(*member, **at) as old, consuming(*member, **at):
        assert old.stderr is not None
        assert old.stderr.readline() == f"kohort: revoked {name} 0-1\n"
        assert old.stderr.readline().startswith(f"kohort: assigned {name} ")


def test_a_group_by_pattern(name: str, there: Shell) -> None:
    """All topics whose whole names match."""
    for suffix in ("-a", "-b", "c"):
        there.done("topics", "create", f"{name}{suffix}", "--partitions", "1")
        there.done("produce", f"{name}{suffix}", "-q", "--", suffix)
    pattern = ("--pattern", f"{name}-.*", "-g", name)
    shown = there.done("consume", *pattern, "-q", "--from-beginning", "-n", "2")
    assert sorted(shown.split()) == ["-a", "-b"]


def test_offsets_are_set(name: str, there: Shell, tmp_path: Path) -> None:
    """Nothing happens without --execute; the printed CSV can be read again."""
    there.done("topics", "create", name, "--partitions", "2")
    for partition in ("0", "1"):
        there.sent(name, b"a\nb\nc\n", "-p", partition)
    there.done("consume", name, "-g", name, "-eq")
    reset = ("groups", "reset-offsets", name)

    def new(*options: str) -> list[int]:
        ended = there.run(*reset, *options, "--json")
        assert ended.code == 0, ended
        assert ("nothing was changed" in ended.err) != ("--execute" in options)
        return [row["new"] for row in json.loads(ended.out)]

    def committed() -> list[int]:
        return [p["committed"] for p in there.group(name)["partitions"]]

    every = "--all-topics"
    assert new(every, "--to-earliest") == [0, 0]
    assert new(every, "--to-offset", "99") == [3, 3]
    assert new(every, "--by-duration", "1h") == [0, 0]
    assert new(every, "--to-datetime", "2020-01-01T00:00:00.000") == [0, 0]
    assert committed() == [3, 3]
    assert new("--topic", f"{name}:1", "--shift-by", "-2", "--execute") == [1]
    assert committed() == [3, 1]
    assert new(every, "--to-current") == [3, 1]
    exported = there.run(*reset, every, "--shift-by", "-1", "--export").out
    assert exported == f"{name},0,2\n{name},1,0\n"
    file = tmp_path / "offsets.csv"
    file.write_text(exported)
    assert new("--from-file", str(file), "--execute") == [2, 0]
    assert committed() == [2, 0]
    assert new(every, "--to-latest", "--execute") == [3, 3]
    line = there.done("groups", "delete-offsets", name, "--topic", f"{name}:0")
    assert line == f"deleted the offset of {name}-0\n"
    assert committed() == [3]
    file.write_text(f"{name},0\n")
    line = there.fails(*reset, "--from-file", str(file), code=2)
    assert line.endswith("line 1: must be TOPIC,PARTITION,OFFSET")
    line = there.fails(*reset, "--topic", f"{name}:7", "--to-latest")
    assert "unknown partition" in line


def test_groups_are_listed(name: str, there: Shell) -> None:
    """All, or those in a state."""
    there.done("topics", "create", name, "--partitions", "1")
    there.done("consume", name, "-g", name, "-eq")
    listed = json.loads(there.done("groups", "list", "--state", "Empty", "--json"))
    row = {"group": name, "state": "Empty", "type": "classic"}
    assert row | {"protocol_type": "consumer"} in listed
    assert name in there.done("groups", "list")
    assert name not in there.run("groups", "list", "--state", "stable").out
    mistyped = there.run("groups", "list", "--state", "Stabel")
    assert (mistyped.code, mistyped.out) == (2, "")
    assert f"group {name}\n" in there.done("groups", "describe", "--all")
    dead = there.run("groups", "list", "--state", "Dead", "--state", "assigning")
    assert dead == (0, "", "kohort: no groups in state Dead or Assigning\n")


def test_a_broker_without_groups(shell: Shell) -> None:
    """People get a sentence, programs an empty list."""
    with Broker() as broker:
        command = "groups", "list", "-b", broker.bootstrap_servers
        assert shell.run(*command) == (0, "", "kohort: no groups yet\n")
        assert json.loads(shell.done(*command, "--json")) == []


# -- readers of the output


def test_nobody_reads_any_more(name: str, there: Shell, at: At) -> None:
    """It ends at once, also without records, and unread records come again."""
    there.done("topics", "create", name, "--partitions", "1")
    there.sent(name, b"".join(b"%06d\n" % n for n in range(30_000)))
    with consuming(name, "-g", name, "--from-beginning", **at) as member:
        assert member.stdout is not None
        assert member.stdout.readline() == "000000\n"
        member.stdout.close()
        assert member.stderr is not None
        said = member.stderr.read()
        assert member.wait(PATIENCE_S) == 0
    assert "Traceback" not in said
    (offset,) = [p["committed"] for p in there.group(name)["partitions"]]
    # At most the lines read, and 64 KB of 7 bytes each in the pipe.
    assert 0 <= offset < 20_000
    with consuming(name, "-g", f"{name}-2", **at) as member:
        assert member.stdout is not None
        member.stdout.close()
        assert member.wait(PATIENCE_S) == 0


def test_a_reader_that_stands_still(name: str, there: Shell, at: At) -> None:
    """The member stays in its group, and leaves on a signal."""
    there.done("topics", "create", name, "--partitions", "1")
    there.sent(name, b"".join(b"%099d\n" % n for n in range(20_000)))
    short = ("-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=50")
    with consuming(name, "-g", name, *short, "--from-beginning", **at) as member:
        assert member.stdout is not None
        assert int(member.stdout.readline()) == 0
        assert there.group(name)["state"] == "Stable"
        member.send_signal(signal.SIGINT)
        # `communicate` would leave out this end's buffer.
        rest = member.stdout.read()
        assert member.wait(PATIENCE_S) == 0
    printed = 1 + rest.count("\n")
    group = there.group(name)
    assert group["state"] == "Empty"
    (offset,) = [p["committed"] for p in group["partitions"]]
    # A batch may have been printed in part: those records come once more.
    assert 0 <= printed - offset <= 500


def test_a_listing_that_nobody_reads(there: Shell, at: At) -> None:
    """Its end is quiet."""
    with subprocess.Popen(
        [*KOHORT, "groups", "list", "--json"],
        env=environment(**at),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(PATIENCE_S)) == (b"", 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")  # noqa: PTH110 - a device
@pytest.mark.parametrize("command", [["topics", "list"], ["consume", "{}", "-eq"]])
def test_a_disk_that_is_full(
    command: list[str], name: str, there: Shell, at: At
) -> None:
    """That is a failure."""
    there.done("topics", "create", name)
    there.done("produce", name, "x", "-q")
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        ended = subprocess.run(
            [*KOHORT, *(part.format(name) for part in command)],
            env=environment(**at),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr == "kohort: cannot write: No space left on device\n"
