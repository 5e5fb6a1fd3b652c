"""Plays of transactional programs: two members of a pipeline, a fenced producer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # no __all__
from tests.interop.scene import HEARTBEAT_MS, LASTING_MS
from tests.librdkafka import row_of
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.interop.scene import Member, Scene

OUT_PARTITIONS = 2
ABORT_EVERY = 3
END = b"end"


def exactly_once(scene: Scene) -> None:
    """Two members copy a topic; the second joins late, and the first leaves early."""
    out = make_out(scene)
    scene.produce(100)
    first = _transform(scene, "first", out)
    scene.until("the first one has committed", lambda: _committed(first) > 0)
    second = _transform(scene, "second", out)
    until_shared(scene)
    scene.produce(100)
    scene.until("the second one has committed", lambda: _committed(second) > 0)
    scene.produce(100)
    scene.close(first)
    scene.until_produced()
    scene.until_committed()
    scene.close(second)

    reader = scene.prepare("reader")
    copied = _read(scene, reader, out)
    assert copied == Counter(f"key-{number}" for number in range(scene.sent))
    # Aborted records are in the log: the reader has left them out.
    aborted = sum(
        count for each in (first, second) for done, count in each.ended if not done
    )
    assert aborted > 0
    assert _written(scene, out).total() >= copied.total() + aborted


def fencing(scene: Scene) -> str:
    """Returns the error of a producer that a second one with its id has fenced."""
    out = make_out(scene)
    worker = scene.prepare("fencing")
    worker.send("fence", bootstrap=scene.bootstrap, out=out, client=scene.group)
    scene.until("the first producer is fenced", lambda: worker.fenced is not None)
    assert _read(scene, worker, out) == Counter(["fencing"])
    assert _written(scene, out) == Counter(["fenced", "fencing"])
    assert worker.fenced is not None
    return worker.fenced


def make_out(scene: Scene) -> str:
    """The topic of a program's output."""
    name = f"{scene.topic}-out"
    wanted = NewTopic(name, OUT_PARTITIONS, 1)
    scene.admin.create_topics([wanted])[name].result(PATIENCE_S)
    return name


def _transform(scene: Scene, name: str, out: str) -> Member:
    member = scene.prepare(name)
    # Transactional ids are the broker's, not the group's: unlike other tests'.
    member.client = f"{scene.group}-{name}"
    member.send(
        "join",
        bootstrap=scene.bootstrap,
        topic=scene.topic,
        out=out,
        group=scene.group,
        client=member.client,
        assignor=scene.assignor,
        abort=ABORT_EVERY,
        session=LASTING_MS,
        heartbeat=HEARTBEAT_MS,
    )
    scene.members.append(member)
    return member


def _committed(member: Member) -> int:
    return sum(done for done, _records in member.ended)


def until_shared(scene: Scene) -> None:
    """Waits until each of the two members has partitions."""
    scene.until_broker(
        "both members own partitions",
        scene.describe,
        lambda got: (
            got.state == ConsumerGroupState.STABLE
            and [bool(each.assignment.topic_partitions) for each in got.members]
            == [True, True]
        ),
    )


def write_ends(scene: Scene, out: str) -> None:
    """Writes a last record to each partition, outside of any transaction."""
    producer = Producer({"bootstrap.servers": scene.bootstrap})
    for partition in range(OUT_PARTITIONS):
        producer.produce(out, key=END, value=END, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def _read(scene: Scene, reader: Member, out: str) -> Counter[str]:
    """The keys that a reader of committed records gets, up to a last record of ours."""
    write_ends(scene, out)
    reader.send("read", bootstrap=scene.bootstrap, out=out, partitions=OUT_PARTITIONS)
    scene.until("the reader has everything", lambda: "read" in reader.said)
    return Counter(key for _partition, _offset, key, _value in reader.records)


def _written(scene: Scene, out: str) -> Counter[str]:
    """The keys of all records up to our last ones, whether committed or not."""
    consumer = Consumer(
        {
            "bootstrap.servers": scene.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(out, each, 0) for each in range(OUT_PARTITIONS)])
    keys: Counter[str] = Counter()
    ended = 0
    while ended < OUT_PARTITIONS:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"no more records after {keys}"
        key = row_of(message)[2]
        ended += key == END
        keys[key.decode()] += 1
    consumer.close()
    del keys[END.decode()]
    return keys
