"""``kohort inspect``: logs of Kafka and of kohort, whole and damaged."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.coordinator.effects import (
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    Written,
)
from kohort.broker.shards.group_records import Encoder
from kohort.control.data_dir.inspection import InspectError
from kohort.control.data_dir.inspection_output import write_inspection
from kohort.protocol import offsets_log, records

KAFKA = Path(__file__).parents[1] / "data" / "kafka-4.3"
ANSWERS: dict[str, Any] = json.loads((KAFKA / "groups.json").read_text("utf-8"))
NOW_MS = 1_700_000_000_123
FIRST = "00000000000000000000.log"


def inspected(
    path: Path, *, group: str | None = None, as_json: bool = False
) -> tuple[int, str]:
    """The exit code and the output."""
    out = io.StringIO()
    code = write_inspection(path, group=group, as_json=as_json, out=out)
    return code, out.getvalue()


def document(path: Path, group: str | None = None) -> Any:
    """The JSON output for a directory without damage."""
    code, text = inspected(path, group=group, as_json=True)
    assert code == 0, text
    return json.loads(text)


def batch(found: Sequence[Written], base_offset: int = 0, codec: int = 0) -> bytes:
    """A batch as a partition keeps it."""
    made = Encoder(codec=codec).encode(found, NOW_MS)
    head = records.PLACE.pack(base_offset, records.read_header(made).length, 0)
    return head + made[len(head) :]


def offset(group_id: str, value: int, metadata: str = "") -> OffsetRecord:
    """A commit for partition 0 of topic t."""
    return OffsetRecord(group_id, "t", 0, (value, -1, metadata, NOW_MS))


def partition(path: Path, index: int, *segments: bytes) -> Path:
    """Makes a partition's folder; one segment for each of the arguments."""
    folder = path / f"__consumer_offsets-{index}"
    folder.mkdir(parents=True)
    for n, data in enumerate(segments):
        (folder / f"{n * 100:020}.log").write_bytes(data)
    return folder


# -- Kafka's directories


def test_groups_of_kafka() -> None:
    """Groups, members and offsets are those that Kafka itself described."""
    found = document(KAFKA)
    groups = {view["group_id"]: view for view in found["groups"]}
    assert groups.keys() == ANSWERS.keys() | {"workers"}
    for group_id, answer in ANSWERS.items():
        view = groups[group_id]
        assert view["kind"].upper() == answer["type"]
        rows = [
            [o["topic"], o["partition"], o["offset"], o["metadata"].removesuffix("\0")]
            for o in view["offsets"]
        ]
        assert rows == [[*row[:3], row[4] or ""] for row in answer["offsets"]]
        if answer["type"] == "CLASSIC":
            assert view["state"].upper() == answer["state"]
            assert (view["protocol_name"] or "") == answer["assignor"]
            members = [
                [
                    m["member_id"],
                    m["group_instance_id"],
                    m["client_id"],
                    m["client_host"],
                    [
                        [t, p]
                        for t, partitions in m["assigned"].items()
                        for p in partitions
                    ],
                ]
                for m in view["members"]
            ]
            assert sorted(members) == sorted(
                [
                    m["member_id"],
                    m["group_instance_id"],
                    m["client_id"],
                    m["host"],
                    m["assigned"],
                ]
                for m in answer["members"]
            )
    assert (found["partitions"], found["notes"], found["damaged"]) == (10, [], [])


def test_what_only_the_log_says() -> None:
    """Partition, generation, times and epochs are shown as DumpLogSegments has them."""
    found = document(KAFKA)
    groups = {view["group_id"]: view for view in found["groups"]}
    group = groups["two-protocols"]
    assert (group["partition"], group["generation_id"]) == (20, 2)
    assert group["state_timestamp_ms"] == 1795250101605
    assert {m["session_timeout_ms"] for m in group["members"]} == {45_000}
    assert {m["rebalance_timeout_ms"] for m in group["members"]} == {300_000}
    assert group["members"][0]["subscribed"] == ["orders", "payments"]
    rows = groups["some-deleted"]["offsets"]
    assert [(o["partition"], o["leader_epoch"]) for o in rows] == [(0, 0), (2, 2)]
    rows = groups["retention"]["offsets"]
    assert {o["expire_timestamp_ms"] for o in rows} == {1798850115232}
    assert rows[0]["commit_timestamp_ms"] == 1795250115232
    workers = groups["workers"]
    assert workers["protocol_type"] == "connect"
    assert workers["members"][0]["assigned"] is None


def test_a_consumer_group() -> None:
    """A group of KIP-848 has its epochs, and its member its partitions by topic id."""
    found = document(KAFKA)
    (group,) = (g for g in found["groups"] if g["kind"] == "consumer")
    assert (group["group_id"], group["state"]) == ("kip-848", "Stable")
    assert (group["generation_id"], group["assignment_epoch"]) == (2, 2)
    assert group["state_timestamp_ms"] == 1795250107778
    assert group["offsets"][0]["metadata"] == "modern\0"
    (member,) = group["members"]
    partitions = {"4hHpQxgHQsmySwPDtdpOLg": [0, 1]}
    assert member == {
        "member_id": "nQGvEWj8TBKClQH7gxB6vQ",
        "group_instance_id": None,
        "client_id": "fixture",
        "client_host": "/127.0.0.1",
        "rack_id": None,
        "member_epoch": 2,
        "state": "STABLE",
        "rebalance_timeout_ms": 300_000,
        "server_assignor": None,
        "subscribed": ["payments"],
        "subscribed_regex": None,
        "assigned": partitions,
        "revoking": {},
        "target": partitions,
    }
    assert found["skipped"] == {}


def test_groups_of_other_protocols(tmp_path: Path) -> None:
    """A share group is named, its offsets are shown, its records are counted."""
    share = offsets_log.frame(0, b"\0\x0b\0\6shared", b"\0\0\0\0\0\1\0")
    value = offsets_log.offset_value(7, -1, "", 1, b"\0\0")
    offset = offsets_log.frame(1, offsets_log.offset_key("shared", "t", 0), value)
    batch = offsets_log.batch_of(share + offset, 2, 1, 0)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch)
    found = document(path)
    (group,) = found["groups"]
    assert (group["group_id"], group["kind"], group["state"]) == (
        "shared",
        "share",
        None,
    )
    assert group["offsets"][0]["offset"] == 7
    assert found["skipped"] == {"SHARE_GROUP_METADATA": 1}
    lines = inspected(path)[1].splitlines()
    assert "group shared: a group of the share protocol, not read" in lines
    assert "skipped, of share and streams groups: 1 record" in lines


def test_text() -> None:
    """The text has a line for each group, member and offset, fit for a terminal."""
    code, text = inspected(KAFKA)
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == (
        f"{KAFKA}: 9 groups with 13 offsets in 10 partitions of __consumer_offsets"
    )
    assert "group static: Stable, in __consumer_offsets-38" in lines
    assert "group einfach-ü-\U0001f600: Empty, in __consumer_offsets-25" in lines
    assert any(
        line.split()[1] == "instance-2" and line.endswith("  orders:2,3")
        for line in lines
        if "instance-2-" in line and "leader" not in line
    )
    (row,) = (line for line in lines if "größe" in line)
    assert row.split()[:5] == ["orders", "3", "1", "-", "2026-11-21"]
    assert row.endswith("größe ✓ \U0001f600\\x00")
    assert "group kip-848: Stable, in __consumer_offsets-5" in lines
    assert (
        "  type consumer, epoch 2, target assignment of "
        "2026-11-21 08:35:07.778Z in epoch 2" in lines
    )
    assert text.replace("\n", "").isprintable()


def test_one_group() -> None:
    """One group can be asked for; another is not there."""
    (group,) = document(KAFKA, "left")["groups"]
    assert group["group_id"] == "left"
    assert "group static" not in inspected(KAFKA, group="left")[1]
    with pytest.raises(InspectError, match="has no group 'deleted'"):
        inspected(KAFKA, group="deleted")


# -- arguments


@pytest.mark.parametrize(
    "name", ["__consumer_offsets-17", f"__consumer_offsets-17/{FIRST}"]
)
def test_one_partition(name: str) -> None:
    """A partition's folder will do, and one segment."""
    (group,) = document(KAFKA / name)["groups"]
    assert (group["group_id"], group["partition"]) == ("left", 17)


def test_segment_somewhere_else(tmp_path: Path) -> None:
    """A copied segment does not say which partition it is of."""
    copy = tmp_path / "copy.log"
    shutil.copy(KAFKA / "__consumer_offsets-17" / FIRST, copy)
    (group,) = document(copy)["groups"]
    assert (group["group_id"], group["partition"]) == ("left", None)
    assert "group left: Empty\n" in inspected(copy)[1]


def test_directory_of_several(tmp_path: Path) -> None:
    """Partitions may lie one level deeper, for each node, or for each disk."""
    for node, index in (("one", 3), ("two", 12), ("two", 4)):
        partition(tmp_path / node, index, batch([offset(f"g{index}", 1)]))
    groups = document(tmp_path)["groups"]
    assert [g["partition"] for g in groups] == [3, 4, 12]


def test_nothing_there(tmp_path: Path) -> None:
    """A directory without groups is reported as such."""
    with pytest.raises(InspectError, match="does not exist"):
        inspected(tmp_path / "nowhere")
    (tmp_path / "topic-0").mkdir()
    (tmp_path / "__consumer_offsets-x").mkdir()
    with pytest.raises(InspectError, match="has no partition of __consumer_offsets"):
        inspected(tmp_path)


def test_empty_partition(tmp_path: Path) -> None:
    """A partition in which nothing was written yet is no mistake."""
    partition(tmp_path, 0, b"")
    found = document(tmp_path)
    assert (found["groups"], found["partitions"], found["notes"]) == ([], 1, [])


# -- records of the log


def test_last_record_counts(tmp_path: Path) -> None:
    """Segments are read in order; tombstones remove earlier records."""
    member = ("m", None, "c", "/h", -1, 6_000, b"", b"")
    first: list[Written] = [
        GroupRecord("g", "consumer", 1, "range", "m", NOW_MS, [member]),
        offset("gone", 1),
        offset("g", 1),
    ]
    second: list[Written] = [
        offset("g", 2),
        GroupRecord("g", "consumer", 2, None, None, NOW_MS, []),
        OffsetRecord("gone", "t", 0, None),
        GroupTombstone("gone"),
    ]
    folder = partition(tmp_path, 0, batch(first), batch(second, 100))
    (folder / "00000000000000000050.log.deleted").write_bytes(b"?")
    (group,) = document(tmp_path)["groups"]
    assert (group["state"], group["generation_id"]) == ("Empty", 2)
    assert [o["offset"] for o in group["offsets"]] == [2]
    (group,) = document(folder / FIRST, "g")["groups"]
    assert (group["state"], group["members"][0]["rebalance_timeout_ms"]) == (
        "Stable",
        6_000,
    )
    assert group["members"][0]["assigned"] == {}


def test_nothing_for_terminals(tmp_path: Path) -> None:
    """Control characters of clients are shown, not sent to the terminal."""
    partition(tmp_path, 0, batch([offset("g\x1b[2J", 1, "a\nb\u202e")]))
    _, text = inspected(tmp_path)
    assert "group g\\x1b[2J: Empty" in text
    assert "a\\nb\\u202e" in text


# -- tails and damage


@pytest.mark.parametrize("left", [1, 11, 16, 17, 60, 61, 100])
def test_torn_tail(tmp_path: Path, left: int) -> None:
    """A log may end within a batch: it is noted, and the records before it count."""
    whole = batch([offset("g", 1)])
    partition(tmp_path, 5, whole + batch([offset("g", 2)], 1)[:left])
    code, text = inspected(tmp_path)
    assert code == 0
    path = tmp_path / "__consumer_offsets-5" / FIRST
    assert (
        f"note: {path}: {left} bytes from {len(whole)} on are not a whole batch" in text
    )
    assert document(tmp_path)["groups"][0]["offsets"][0]["offset"] == 1


def test_space_set_aside(tmp_path: Path) -> None:
    """Zeros at the end are space for more (``log.preallocate``), if nothing follows."""
    whole = batch([offset("g", 1)])
    folder = partition(tmp_path, 0, whole + bytes(5000))
    assert "5000 bytes" in document(tmp_path)["notes"][0]
    (folder / FIRST).write_bytes(whole + bytes(5000) + whole)
    code, text = inspected(tmp_path)
    assert code == 1
    assert f"byte {len(whole)}, offset 1: not a batch (magic 0" in text


def test_torn_in_the_middle(tmp_path: Path) -> None:
    """Only the last segment may end within a batch."""
    one, two = batch([offset("g", 1)]), batch([offset("g", 2)], 100)
    folder = partition(tmp_path, 0, one + one[:30], two)
    code, text = inspected(tmp_path)
    assert code == 1
    where = f"30 bytes from {len(one)} on are not a whole batch"
    assert f"damaged: {folder / FIRST}: {where}" in text


@pytest.mark.parametrize(
    ("at", "reason"),
    [(80, "wrong CRC"), (16, "magic -3,"), (8, "length -"), (20, "wrong CRC")],
)
def test_damaged_batch(tmp_path: Path, at: int, reason: str) -> None:
    """The damage has its place; records before it, and elsewhere, are shown."""
    good = batch([offset("g", 1)])
    bad = bytearray(batch([offset("g", 2)], 1))
    bad[at] ^= 0xFF
    folder = partition(tmp_path, 0, good + bytes(bad) + good)
    partition(tmp_path, 1, batch([offset("h", 3)]))
    code, text = inspected(tmp_path)
    assert code == 1
    (line,) = (line for line in text.splitlines() if line.startswith("damaged: "))
    assert str(folder / FIRST) in line
    assert f"byte {len(good)}, offset 1: " in line
    assert reason in line
    assert "group g: Empty" in text
    assert "group h: Empty" in text
    code, text = inspected(tmp_path, as_json=True)
    assert (code, json.loads(text)["damaged"]) == (1, [line.removeprefix("damaged: ")])


def test_damaged_record(tmp_path: Path) -> None:
    """A batch that is whole may hold a record that is none."""
    key = offsets_log.offset_key("g", "t", 0)
    wrong = records.build_batch([records.Record(0, 1, key, b"\0\x09" + bytes(30))])
    wrong = (1).to_bytes(8, "big") + wrong[8:]
    folder = partition(tmp_path, 0, batch([offset("g", 1)]) + wrong)
    code, text = inspected(tmp_path)
    assert code == 1
    assert f"damaged: {folder}: record 0 of the batch at offset 1: " in text
    assert "OffsetCommitValue of version 9" in text


def test_group_beside_damage(tmp_path: Path) -> None:
    """An unknown group may be in the damaged part: the error says so."""
    good = batch([offset("g", 1)])
    partition(tmp_path, 0, good[:-1] + b"?")
    code, text = inspected(tmp_path, group="g")
    assert code == 1
    assert "wrong CRC" in text


def test_read_only(tmp_path: Path) -> None:
    """Nothing is written, and nothing but segments is opened."""
    folder = partition(tmp_path, 0, batch([offset("g", 1)]))
    for name in ("00000000000000000000.index", "leader-epoch-checkpoint", ".lock"):
        (folder / name).write_bytes(b"?")
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}
    document(tmp_path)
    after = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}
    assert after == before
