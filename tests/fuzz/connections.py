"""Fuzz target: whole connections to a cluster in memory, and their effects on it.

An input is a byte of settings and a list of steps. A step is a byte for its kind and
its connection, an int16 size, and that many bytes.
"""

from __future__ import annotations

import contextlib
import io
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.fuzz.memory_cluster import World, play, topic_id
from tests.fuzz.messages import Pool, mutated
from tests.fuzz.target import Target
from tests.log.storage import temporary_folder
from tests.protocol.strategies import filled
from tests.wire.memory import Transport
from tests.wire.requests import join_group, produce, sync_group

from kohort.broker import long_work
from kohort.protocol import consumer, records
from kohort.protocol.apis.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.apis.k12_heartbeat import HeartbeatRequest
from kohort.protocol.apis.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kohort.protocol.framing import Framer, FrameSizeError
from kohort.protocol.generated_calls import skip_tags
from kohort.protocol.messages import WireError
from kohort.protocol.registry import API_VERSIONS, APIS, BY_KEY, BY_NAME, Api

RAW, FRAME, REQUEST, SLEEP, EOF, LOSE, READ, OPERATE = range(8)
"""Kinds of steps: raw bytes; bytes after their size; a body after its size and header;
time passes; the client sends no more; it disconnects; it stops reading or goes on; an
operator acts."""

_CONNECTIONS = 4
_SPLIT = 0x20
"""In a step's byte: its bytes arrive in pieces."""
_LONG = 0x40
"""In a request's byte: a long client id, so that the request is read in pieces."""
_LONG_ID = 17_000
_PIECE = 7
_FULL_GROUPS, _DELAY, _HASTY, _ON_DISK = 1, 2, 4, 8
"""Settings: ``group.max.size`` is 2; new groups wait for 3 s; work in pieces uses the
smallest ones, with other requests in between; there are files."""
_MONTH = 31 * 24 * 3600.0
"""Seconds in which every wait ends: the longest timeout is 25 days."""
_MOST_STEPS = 40
_LONGEST_BODY = 2000
_PRODUCE = 0
_ADD_PARTITIONS = 24


class Step(NamedTuple):
    """One step of a scene."""

    kind: int
    connection: int
    data: bytes
    is_split: bool = False
    is_long: bool = False

    def encode(self) -> bytes:
        """The bytes of the step in an input."""
        first = self.kind | self.connection << 3
        first |= _SPLIT * self.is_split | _LONG * self.is_long
        return struct.pack(">BH", first, len(self.data)) + self.data


def steps_of(data: bytes) -> list[Step]:
    """The steps of an input, without its first byte; the last one may be short."""
    steps: list[Step] = []
    at = 1
    while at + 3 <= len(data) and len(steps) < _MOST_STEPS:
        first, size = struct.unpack_from(">BH", data, at)
        at += 3
        body = data[at : at + size]
        at += size
        flags = bool(first & _SPLIT), bool(first & _LONG)
        steps.append(Step(first & 7, first >> 3 & 3, body, *flags))
    return steps


def scene_of(settings: int, steps: list[Step]) -> bytes:
    """The input of these steps."""
    return bytes((settings,)) + b"".join(step.encode() for step in steps)


def connections(data: bytes) -> None:
    """No sequence of bytes makes a handler fail, or other clients wait.

    Every request is answered in its turn with a message of its version, or its
    connection is closed.
    """
    if not data:
        return
    config = {
        "group.max.size": 2 if data[0] & _FULL_GROUPS else 2**31 - 1,
        "group.initial.rebalance.delay.ms": 3000 if data[0] & _DELAY else 0,
    }

    is_hasty = bool(data[0] & _HASTY)

    async def scene(log: io.StringIO) -> None:
        with contextlib.ExitStack() as stack:
            path = None
            if data[0] & _ON_DISK:
                path = Path(stack.enter_context(temporary_folder()))
            world = World(config, log, data_dir=path, is_hasty=is_hasty)
            stack.callback(world.cluster.close)
            played = _Scene(world)
            await played.play(steps_of(data))
            await played.end()
            await world.stop()
            if path is not None:
                again = World({}, log, data_dir=path)
                stack.callback(again.cluster.close)
                assert again.facts() == world.facts(), "a restart finds all"

    with _pieces(1 if is_hasty else long_work.PIECE_COST):
        play(scene)


@contextlib.contextmanager
def _pieces(cost: int) -> Iterator[None]:
    """Makes pieces of long work at this cost."""
    before, long_work.PIECE_COST = long_work.PIECE_COST, cost
    try:
        yield
    finally:
        long_work.PIECE_COST = before


class _Scene:
    """Plays steps in a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._bystander = world.connect(_CONNECTIONS)
        self._clients: dict[int, Transport] = {}
        self._all: list[Transport] = []
        self._requests = 0

    async def play(self, steps: list[Step]) -> None:
        for step in steps:
            if step.kind == SLEEP:
                ms = int.from_bytes(step.data[:4], "big")
                await self._world.sleep(ms / 1000)
            else:
                self._do(step)
                await self._world.settle()
            await self._ping()

    def _client(self, number: int) -> Transport:
        found = self._clients.get(number)
        if found is None or found.is_lost:
            found = self._clients[number] = self._world.connect(number)
            self._all.append(found)
        return found

    def _do(self, step: Step) -> None:
        client, data = self._client(step.connection), step.data
        if step.kind == EOF:
            client.send_eof()
        elif step.kind == LOSE:
            client.lose()
        elif step.kind == READ:
            client.read(goes_on=bool(data))
        elif step.kind == OPERATE:
            self._world.operate(data[0] if data else 0)
        else:
            if step.kind == REQUEST:
                data = self._request(data, is_long=step.is_long)
            if step.kind != RAW:
                data = struct.pack(">i", len(data)) + data
            size = _PIECE if step.is_split else len(data) or 1
            for at in range(0, len(data), size):
                client.send(data[at : at + size])

    def _request(self, data: bytes, *, is_long: bool) -> bytes:
        self._requests += 1
        api, version = _api_of(data)
        client_id = b"c" * (_LONG_ID if is_long else 1)
        ids = self._requests, len(client_id)
        head = struct.pack(">hhih", api.key, version, *ids) + client_id
        return head + (b"\0" if api.is_flexible(version) else b"") + data[2:]

    async def _ping(self) -> None:
        """Another client is answered at once, if its node runs."""
        bystander = self._bystander
        if bystander.is_lost:
            if not self._world.cluster.nodes[min(self._world.cluster.nodes)].is_open:
                return
            self._bystander = bystander = self._world.connect(_CONNECTIONS)
        before = len(bystander.received)
        bystander.send(struct.pack(">ihhih", 10, API_VERSIONS, 0, 1, -1))
        assert len(bystander.received) > before, "others are served"

    async def end(self) -> None:
        """Checks that every waiting request is answered or closed within a month."""
        for client in self._all:
            client.read(goes_on=True)
        await self._world.finish()
        await self._world.sleep(_MONTH)
        await self._world.finish()
        for client in self._all:
            _check_answers(client)
            client.lose()
        await self._world.settle()
        await self._ping()


def _check_answers(client: Transport) -> None:
    """Checks that responses are whole, in order, and of the requests' versions."""
    asked = _asked(bytes(client.sent))
    received, at = bytes(client.received), 0
    while at < len(received):
        size, correlation_id = struct.unpack_from(">ii", received, at)
        answer = received[at + 4 : at + 4 + size]
        assert len(answer) == size, "answers are whole"
        at += 4 + size
        for api, version, asked_id, body in asked:
            if asked_id == correlation_id:
                _check_answer(api, version, answer)
                break
            assert _wants_no_answer(api, version, body), "answers are in order"
        else:
            raise AssertionError("each answer has a request")
    for api, version, _, body in asked:
        if client.is_closing() or _is_never_answered(api, version, body):
            return
        done = _wants_no_answer(api, version, body)
        assert done, f"{api.name} v{version} is answered"


def _asked(stream: bytes) -> Iterator[tuple[Api, int, int, bytes]]:
    """API, version, correlation id and bytes of each request, as far as complete."""
    try:
        frames = Framer(104_857_600).feed(stream)
    except FrameSizeError as error:
        frames = error.frames
    for buffer, start, end in frames:
        if end - start < 10:
            return
        key, version, correlation_id = struct.unpack_from(">hhi", buffer, start)
        if key not in BY_KEY:
            return
        yield BY_KEY[key], version, correlation_id, bytes(buffer[start:end])


def _wants_no_answer(api: Api, version: int, request: bytes) -> bool:
    if api.key != _PRODUCE or not api.accepts(version):
        return False
    return bool(_decoded(api, version, request).acks == 0)


def _is_never_answered(api: Api, version: int, request: bytes) -> bool:
    """An AddPartitionsToTxn of no transactions: as in Kafka, all behind it wait."""
    if api.key != _ADD_PARTITIONS or not 4 <= version <= api.newest:
        return False
    return not _decoded(api, version, request).transactions


def _decoded(api: Api, version: int, request: bytes) -> Any:
    (size,) = struct.unpack_from(">h", request, 8)
    start = 10 + max(size, 0)
    if api.is_flexible(version):
        start = skip_tags(request, start)
    message, _ = api.request(version).decode(request, start, len(request))
    return message


def _check_answer(api: Api, version: int, answer: bytes) -> None:
    if not api.accepts(version):
        version = 0
    start = 4
    if api.response_header_version(version) >= 1:
        start = skip_tags(answer, start)
    _, end = api.response(version).decode(answer, start, len(answer))
    assert end == len(answer), "nothing is behind the answer"


# -- requests in inputs


def _api_of(data: bytes) -> tuple[Api, int]:
    key, version = (data + b"\0\0")[:2]
    api = BY_KEY.get(key) or APIS[key % len(APIS)]
    if not api.accepts(version):
        version = api.oldest + version % (api.newest - api.oldest + 1)
    return api, version


def _asking(name: str, version: int, message: Any, connection: int = 0) -> Step:
    api = BY_NAME[name]
    body = api.request(version).encode(message)
    data = bytes((api.key, version)) + body
    return Step(REQUEST, connection, data)


# -- seeds

_SUBSCRIPTION = consumer.encode(consumer.Subscription(["t"]))
_ASSIGNMENT = consumer.encode(
    consumer.Assignment([consumer.TopicPartitions("t", [0, 1])])
)
_BATCH = records.build_batch([records.Record(0, 1_700_000_000_000, b"k", b"v")])
_IDEMPOTENT = records.build_batch(
    [records.Record(0, 1_700_000_000_000, b"k", None)],
    codec=4,
    producer_id=0,
    producer_epoch=0,
    base_sequence=0,
)
_POOL = Pool(
    (
        *("m1", "m2", "m3", "i1", "i2", "u", "h", "roundrobin", "*", "\0"),
        *("__consumer_offsets", "__kohort_events", "a" * 249, "1", "2", "-1", "0"),
        *("cleanup.policy", "compact", "delete", "retention.ms", "segment.bytes"),
        *("message.timestamp.type", "LogAppendTime", "max.message.bytes"),
        *("group.max.size", "offsets.retention.minutes", "flush.messages"),
    ),
    [topic_id(number) for number in range(1, 6)],
    [_SUBSCRIPTION, _ASSIGNMENT, _BATCH, _IDEMPOTENT, _BATCH * 2, _BATCH[:-1]],
)


def _join(member: str = "", version: int = 3, instance: str | None = None) -> Step:
    message = join_group(
        "g",
        member,
        instance=instance,
        rebalance_ms=20_000,
        protocols=[("range", _SUBSCRIPTION)],
    )
    return _asking("JoinGroup", version, message)


def _sync(version: int = 3, member: str = "m1") -> Step:
    message = sync_group(member, assignments={member: _ASSIGNMENT})
    return _asking("SyncGroup", version, message)


def _create() -> Step:
    configs = [CreatableTopicConfig("cleanup.policy", "compact")]
    topics = [CreatableTopic("t", 2, 1, [], []), CreatableTopic("u", 1, 2, [], configs)]
    return _asking("CreateTopics", 7, CreateTopicsRequest(topics, 1000, False))


def _produce(batch: bytes = _BATCH, topic: str = "t", acks: int = -1) -> Step:
    return _asking("Produce", 9, produce((0, batch), topic=topic, acks=acks))


def _fetch(max_wait_ms: int, connection: int = 0) -> Step:
    row = FetchTopic("t", topic_id(1), [FetchPartition(0, partition_max_bytes=1000)])
    message = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[row])
    return _asking("Fetch", 12, message, connection)


def _commit(version: int = 8) -> Step:
    row = OffsetCommitRequestPartition(0, 5)
    topics = [OffsetCommitRequestTopic("t", topic_id(1), [row])]
    return _asking(
        "OffsetCommit", version, OffsetCommitRequest("g", 1, "m1", topics=topics)
    )


def _sleep(ms: int) -> Step:
    return Step(SLEEP, 0, ms.to_bytes(4, "big"))


def _operate(what: int) -> Step:
    return Step(OPERATE, 0, bytes((what,)))


def _scenes() -> Iterator[bytes]:
    beat = _asking("Heartbeat", 3, HeartbeatRequest("g", 1, "m1", None))
    group = [_create(), _join(), _sync(), beat, _commit()]
    yield scene_of(0, group)
    yield scene_of(_HASTY, [*group, *group])
    yield scene_of(_ON_DISK, [*group, _produce(), _produce(topic="u"), _operate(0)])
    yield scene_of(_ON_DISK | _HASTY, [*group, _produce(), _operate(2), beat])
    yield scene_of(_DELAY, [*group, _sleep(3000), beat])
    yield scene_of(_FULL_GROUPS, [_join(), _join()._replace(connection=1), _sync()])
    yield scene_of(0, [*group, _operate(2), beat, _operate(0x12), _commit(), beat])
    yield scene_of(
        0, [_join(instance="i1", version=5), _join(instance="i1", version=5)]
    )
    wait = [_create(), _fetch(100_000), _fetch(2**31 - 1, 1)]
    yield scene_of(0, [*wait, _produce(), _produce(_IDEMPOTENT), _sleep(10)])
    lost = Step(LOSE, 1, b"")
    yield scene_of(0, [*wait, lost, _produce(acks=0), Step(EOF, 0, b"")])
    yield scene_of(
        0, [_create(), _produce(topic="u"), _produce(topic="u"), _operate(0)]
    )
    raw = struct.pack(">ihhih", 10, 18, 99, 7, -1)
    yield scene_of(0, [Step(RAW, 0, raw, is_split=True), Step(FRAME, 0, raw[4:])])
    for api in APIS:
        for version in {api.oldest, api.newest}:
            step = _asking(api.name, version, filled(api.request_class, version))
            yield scene_of(0, [_create(), step])
            empty = _asking(api.name, version, api.request_class())
            long = step._replace(is_long=True)
            yield scene_of(0, [_create(), empty._replace(is_split=True), long])


# -- mutations


def _mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes a message, or adds, moves or drops a step."""
    settings = data[0] if data else 0
    steps = steps_of(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        how = chance.randrange(8)
        at = chance.randrange(len(steps)) if steps else 0
        asking = [i for i, step in enumerate(steps) if step.kind == REQUEST]
        if how < 4 and asking:
            at = chance.choice(asking)
            steps[at] = _changed(steps[at], chance)
        elif how == 4 and steps:
            steps.insert(chance.randint(0, len(steps)), steps[at])
        elif how == 5 and steps:
            del steps[at]
        elif how == 6 and steps:
            other = chance.randrange(_CONNECTIONS)
            flags = chance.random() < 0.3, chance.random() < 0.3
            step = steps[at]
            steps[at] = Step(step.kind, other, step.data, *flags)
        else:
            steps.insert(chance.randint(0, len(steps)), _new_step(chance))
    if chance.random() < 0.1:
        settings = chance.randrange(16)
    return scene_of(settings, [s for s in steps if len(s.data) <= 0xFFFF])


def _changed(step: Step, chance: random.Random) -> Step:
    api, version = _api_of(step.data)
    try:
        message, _ = api.request(version).decode(step.data, 2, len(step.data))
    except WireError:
        message = filled(api.request_class, version)
    if chance.random() < 0.2:
        version = chance.randint(api.oldest, api.newest)
    else:
        message = mutated(message, version, _POOL, chance)
    try:
        changed = _asking(api.name, version, message)
    except (AttributeError, struct.error, TypeError):
        # The other version does not allow null here.
        return step
    return step._replace(data=changed.data[:_LONGEST_BODY])


def _new_step(chance: random.Random) -> Step:
    number = chance.randrange(_CONNECTIONS)
    kind = chance.choice((REQUEST,) * 6 + (SLEEP, SLEEP, EOF, LOSE, READ, OPERATE))
    if kind == REQUEST:
        api = chance.choice(APIS)
        version = chance.randint(api.oldest, api.newest)
        made = chance.choice((filled(api.request_class, version), api.request_class()))
        return _changed(_asking(api.name, version, made, number), chance)
    if kind == SLEEP:
        data = chance.choice((1, 100, 3000, 10_000, 50_000, 2**31)).to_bytes(4, "big")
    else:
        data = bytes((chance.randrange(32),)) if chance.random() < 0.8 else b""
    return Step(kind, number, data)


CONNECTIONS = Target(connections, _scenes, _mutate, weight=4)
