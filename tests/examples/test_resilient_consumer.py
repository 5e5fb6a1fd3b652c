"""The resilient consumer over kohort's client and over confluent-kafka: same scenes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from examples import resilient_consumer, resilient_consumer_confluent
from tests.client.cancelling import cancel_at_every_await
from tests.client.stage import PATIENCE

from kohort.client.admin import Admin
from kohort.client.consuming.chunks import ConsumerRecord
from kohort.testing import Group, Kohort, Process

MODULES = [resilient_consumer, resilient_consumer_confluent]
EXAMPLES = Path(__file__).parents[2] / "examples"
QUICK = {"heartbeat.interval.ms": "100"}
"""A member hears of a rebalance soon."""
DEAF = {"heartbeat.interval.ms": "14000"}
"""A member hears nothing of the group for as long as a scene takes."""


@pytest.fixture(params=[module.__name__.rpartition(".")[2] for module in MODULES])
def name(request: pytest.FixtureRequest) -> str:
    """An example."""
    return str(request.param)


@pytest.fixture
def group(kohort: Kohort) -> Group:
    """The group of all that `start` starts."""
    return kohort.group("g")


class EnoughError(Exception):
    """All has been read that a scene is about."""


def start(
    kohort: Kohort, name: str, instance_id: str = "a", **settings: str
) -> Process:
    """Starts an example that reads "t"; `settings`, by Kafka's names, replace its own.

    It prints a line for each record, as "t-0@17", and logs to stderr.
    """
    options = {
        "--bootstrap": kohort.bootstrap_servers,
        "--topic": "t",
        "--group": "g",
        "--instance-id": instance_id,
    }
    return kohort.process(
        [
            sys.executable,
            EXAMPLES / f"{name}.py",
            *itertools.chain.from_iterable(options.items()),
            *(f"--set={key}={value}" for key, value in settings.items()),
        ],
        env={"PYTHONWARNINGS": "error"},
    )


def has_read(example: Process, *records: str) -> None:
    """Waits until it has read records, each the last one of its partition."""
    for record in records:
        example.wait_for_line(record, timeout=PATIENCE)


def has_logged(example: Process, text: str) -> None:
    """Waits for a line of its log."""
    example.wait_for_line(text, stream="stderr", timeout=PATIENCE)


def logged(example: Process, text: str) -> int:
    """The number of lines of its log with a text."""
    return sum(text in line for line in example.stderr)


def end(example: Process, number: signal.Signals = signal.SIGTERM) -> int:
    """Its exit code after a signal."""
    os.kill(example.pid, number)
    return example.wait(PATIENCE).code


def all_in_order(count: int) -> list[str]:
    """The lines of a partition's first records."""
    return [f"t-0@{n}" for n in range(count)]


def all_of(*counts: int) -> list[str]:
    """The lines of all records of a topic, given the number in each partition."""
    return sorted(f"t-{p}@{n}" for p, count in enumerate(counts) for n in range(count))


@pytest.mark.parametrize("module", MODULES)
def test_the_settings_are_those_that_the_text_promises(module: Any) -> None:
    """Both have the same: static, cooperative, 15 s, 3 s, 300 s, by hand."""
    assert module.SETTINGS == {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": 15_000,
        "heartbeat.interval.ms": 3_000,
        "max.poll.interval.ms": 300_000,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    assert module.COMMIT_EVERY == 100


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_reads_all_from_the_start_and_ends_by_a_signal(
    name: str, kohort: Kohort, group: Group, number: signal.Signals
) -> None:
    """Exit code 0; all it has read is committed, and its place in the group kept."""
    kohort.topic("t", partitions=2, records=75)
    example = start(kohort, name)
    has_read(example, "t-0@37", "t-1@36")
    assert end(example, number) == 0
    assert sorted(example.stdout) == all_of(38, 37)
    assert logged(example, "partitions assigned: t-0, t-1") == 1
    assert logged(example, "partitions revoked: t-0, t-1") == 1
    assert group.committed() == {("t", 0): 38, ("t", 1): 37}
    assert [member.instance_id for member in group.members] == ["a"]


def test_it_commits_every_100_records(name: str, kohort: Kohort, group: Group) -> None:
    """Killed after 250 records it goes on with the 201st."""
    kohort.topic("t", records=250)
    example = start(kohort, name)
    has_read(example, "t-0@249")
    assert group.committed() == {("t", 0): 200}
    example.kill()
    example = start(kohort, name)
    has_read(example, "t-0@249")
    assert example.stdout == [f"t-0@{n}" for n in range(200, 250)]
    assert end(example) == 0
    assert group.committed() == {("t", 0): 250}


async def test_a_record_whose_processing_fails_is_not_committed(
    name: str, kohort: Kohort, group: Group
) -> None:
    """The error of `process` comes out; the records before are committed."""
    kohort.topic("t", records=10)
    settings = {
        "bootstrap.servers": kohort.bootstrap_servers,
        "group.id": "g",
        "group.instance.id": "a",
    }

    def fail_at_6(offset: int | None) -> None:
        if offset == 6:
            raise LookupError

    async def process(record: ConsumerRecord) -> None:
        fail_at_6(record.offset)

    consumer: Any
    if name == "resilient_consumer":
        consumer = resilient_consumer.ResilientConsumer("t", settings, process)
        life = consumer.run()
    else:
        consumer = resilient_consumer_confluent.ResilientConsumer(
            "t", settings, lambda message: fail_at_6(message.offset())
        )
        life = asyncio.to_thread(consumer.run)
    with pytest.raises(LookupError):
        await life
    assert group.committed() == {("t", 0): 6}


def test_nothing_is_read_twice_in_a_rebalance(
    name: str, kohort: Kohort, group: Group
) -> None:
    """A second member joins in the middle: offsets are committed before they move."""
    records = kohort.topic("t", partitions=4, records=140)
    a = start(kohort, name, "a", **QUICK)
    has_read(a, *(f"t-{p}@34" for p in range(4)))
    assert sum(group.committed().values()) == 100
    group.hold("PreparingRebalance")
    b = start(kohort, name, "b", **QUICK)
    group.until(state="PreparingRebalance", members=2, timeout=PATIENCE)
    records.produce(40)
    group.release()
    group.until_assigned("b", partitions=2, timeout=PATIENCE)
    records.produce(40)
    for example, member in ((a, "a"), (b, "b")):
        has_read(example, *(f"t-{p}@54" for p in group.assignment()[member]["t"]))
    assert end(a) == end(b) == 0
    assert sorted(a.stdout + b.stdout) == all_of(55, 55, 55, 55)
    assert group.committed() == {("t", p): 55 for p in range(4)}


def test_a_commit_that_fails_as_it_ends_is_logged(
    name: str, kohort: Kohort, group: Group
) -> None:
    """Put out of the group without knowing, it ends with 0 all the same."""
    kohort.topic("t", records=30)
    example = start(kohort, name, **DEAF)
    has_read(example, "t-0@29")
    group.kick("a")
    assert end(example) == 0
    assert logged(example, "partitions revoked: t-0") == 1
    assert logged(example, "not committed") == 1
    assert not group.committed()


def test_a_commit_that_fails_at_a_revocation_does_not_end_it(
    name: str, kohort: Kohort, group: Group
) -> None:
    """It joins again, and reads again all that was not committed.

    Put out of the group without knowing, it gives all up (eagerly) when the topic
    grows, and only then learns that it is no member.
    """
    records = kohort.topic("t", records=30)
    eager = {"partition.assignment.strategy": "range", "metadata.max.age.ms": "500"}
    if name == "resilient_consumer_confluent":
        eager["topic.metadata.refresh.interval.ms"] = "500"
    example = start(kohort, name, **DEAF, **eager)
    has_read(example, "t-0@29")
    group.kick("a")
    asyncio.run(grow(kohort, 2))
    group.until_assigned("a", partitions=2, timeout=PATIENCE)
    records.produce(1)
    has_read(example, "t-0@30")
    assert logged(example, "not committed") == 1
    assert end(example) == 0
    assert example.stdout == all_in_order(30) + all_in_order(31)
    assert group.committed() == {("t", 0): 31}


async def grow(kohort: Kohort, count: int) -> None:
    """Gives the topic more partitions."""
    async with Admin(bootstrap_servers=kohort.bootstrap_servers) as admin:
        (await admin.create_partitions({"t": count})).check()


def test_a_commit_that_fails_in_the_loop_does_not_end_it(
    name: str, kohort: Kohort, group: Group
) -> None:
    """Put out of the group without knowing, it fails to commit after 100 records."""
    records = kohort.topic("t", records=30)
    example = start(kohort, name, **DEAF)
    has_read(example, "t-0@29")
    group.kick("a")
    records.produce(70)
    has_logged(example, "not committed")
    group.until_committed("t", 0, 100, timeout=PATIENCE)
    assert end(example) == 0
    assert example.stdout == 2 * all_in_order(100)


def test_a_restart_causes_no_rebalance(name: str, kohort: Kohort, group: Group) -> None:
    """KIP-345: it gets its partitions back, and the other hears nothing."""
    records = kohort.topic("t", partitions=4, records=80)
    group.hold("PreparingRebalance")
    a, b = (start(kohort, name, instance_id, **QUICK) for instance_id in "ab")
    group.until(members=2, timeout=PATIENCE)
    group.release()
    group.until_assigned(partitions=4, timeout=PATIENCE)
    before, generation = group.assignment(), group.generation
    for example, member in ((a, "a"), (b, "b")):
        has_read(example, *(f"t-{p}@19" for p in before[member]["t"]))
    revoked = logged(b, "partitions revoked")
    assert end(a) == 0
    a = start(kohort, name, "a", **QUICK)
    has_logged(a, "partitions assigned: t-")
    records.produce(20)
    mine = before["a"]["t"]
    has_read(a, *(f"t-{p}@24" for p in mine))
    assert sorted(a.stdout) == [f"t-{p}@{n}" for p in mine for n in range(20, 25)]
    assert logged(b, "partitions revoked") == revoked
    assert (group.assignment(), group.generation) == (before, generation)


@pytest.mark.kohort(config={"group.max.size": 1})
@pytest.mark.parametrize(
    "_numbering",
    [
        pytest.param(
            each, marks=pytest.mark.kohort(config={"wire.error.numbering": each})
        )
        for each in ("apache", "kip-389")
    ],
)
def test_it_ends_when_the_group_is_full(
    name: str, kohort: Kohort, _numbering: str
) -> None:
    """Exit code 75 and KIP-389's text, at the first refusal, whatever its number."""
    kohort.topic("t", records=5)
    a = start(kohort, name, "a")
    has_read(a, "t-0@4")
    b = start(kohort, name, "b")
    assert b.wait(PATIENCE).code == 75
    assert "Consumer group is already at its full capacity." in b.stderr[-1]
    assert not b.stdout
    assert end(a) == 0


async def test_cancelled_anywhere_it_leaves_nothing_behind(
    kohort: Kohort, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No task is left, and no record is committed that was not processed."""
    monkeypatch.setattr(resilient_consumer, "COMMIT_EVERY", 4)
    kohort.topic("t", records=10)
    before = asyncio.all_tasks()
    groups = (f"g{number}" for number in itertools.count())
    processed: dict[str, list[int]] = {}

    async def consume() -> None:
        group = next(groups)
        rows = processed[group] = []

        async def process(record: ConsumerRecord) -> None:
            await asyncio.sleep(0)
            rows.append(record.offset)
            if len(rows) == 10:
                raise EnoughError

        settings = {
            "bootstrap.servers": kohort.bootstrap_servers,
            "group.id": group,
            "group.instance.id": "a",
        }
        with contextlib.suppress(EnoughError):
            await resilient_consumer.ResilientConsumer("t", settings, process).run()

    async def afterwards() -> None:
        left = asyncio.all_tasks() - before
        ours = [t for t in left if "/client/" in repr(t.get_coro())]
        assert not ours, ours

    async with asyncio.timeout(2 * PATIENCE):
        assert await cancel_at_every_await(consume, afterwards) > 15
    for group, rows in processed.items():
        assert rows == [*range(len(rows))]
        offset = kohort.group(group).committed().get(("t", 0), 0)
        if len(rows) < 10:
            assert offset == len(rows)
        else:
            # The tenth was not processed; the last commit may have been cut short.
            assert 8 <= offset <= 9
