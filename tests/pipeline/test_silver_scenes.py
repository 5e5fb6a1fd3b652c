"""Silver of handwritten scenes with known numbers, each in its own run."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from tests.events.build import BEGIN, SECOND, Stream, parts
from tests.pipeline.events import (
    Event,
    Row,
    as_run,
    counted,
    frame,
    made,
    rows,
    with_accounts,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

S = SECOND
ODD = "odd/ä ' \" `${x}` %, #\t"
Scene = Callable[[], Sequence[Event]]
SCENES: dict[str, Scene] = {}
Silver = Callable[..., list[Row]]


def scene(tell: Scene) -> Scene:
    """Registers a scene; its run gets its name."""
    SCENES[tell.__name__.strip("_")] = tell
    return tell


@pytest.fixture(scope="module")
def silver(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Silver:
    """Rows of one run in a silver table, ordered by a column."""
    from kohort.pipeline.silver import TABLE_FUNCTIONS

    folder = tmp_path_factory.mktemp("silver")
    told = {name: with_accounts(as_run(tell(), name)) for name, tell in SCENES.items()}
    told["published_twice"] += published_again(told["published_twice"])
    bronze = frame(spark, folder, itertools.chain.from_iterable(told.values()))
    tables = made(TABLE_FUNCTIONS, bronze, folder)
    found: Mapping[tuple[str, str], list[Row]] = defaultdict(list)
    for path in TABLE_FUNCTIONS:
        for row in rows(tables[path]):
            found[path, row["run"]].append(row)

    def table(name: str, run: str, by: str | None = None) -> list[Row]:
        assert run in SCENES
        own = found[f"silver/{name}", run]
        return sorted(own, key=lambda row: row[by]) if by else own

    return table


def at(row: Row, *names: str) -> list[float | None]:
    """Times of a row, in seconds since the start of the scenes."""
    return [None if row[n] is None else (row[n] - BEGIN) / S for n in names]


def pair(protocol: str = "range", instance: str | None = None) -> Stream:
    """Ana owns partitions 0 and 1, ben 2 and 3; ten seconds have passed."""
    stream = Stream(protocol=protocol)
    stream.comes("ana", instance)
    stream.rebalance("member_joined", "ana", owned={"ana": [0, 1, 2, 3]})
    stream.wait(1)
    stream.comes("ben")
    stream.rebalance(
        "member_joined",
        "ben",
        joins={"ana": 2},
        sync_s=1,
        owned={"ana": [0, 1], "ben": [2, 3]},
    )
    stream.wait(6)
    return stream


def commits(stream: Stream, name: str, *rows: tuple[int, int, int | None]) -> None:
    """Adds an OffsetCommit of (partition, offset, end) rows of the topic "t"."""
    stream.say("offsets_committed", name, offsets=offsets(*rows))


def refuses(stream: Stream, name: str, *rows: tuple[int, int, int | None]) -> None:
    """Adds a refused OffsetCommit with the same kind of rows."""
    error = "UNKNOWN_MEMBER_ID"
    stream.say("commit_refused", name, error=error, offsets=offsets(*rows))


def offsets(*rows: tuple[int, int, int | None]) -> list[Row]:
    """Rows of a commit."""
    names = ("partition", "offset", "end_offset")
    return [{"topic": "t", **dict(zip(names, row, strict=True))} for row in rows]


# -- rebalances


@scene
def _eager() -> Sequence[Event]:
    return pair().events


@scene
def _cooperative() -> Sequence[Event]:
    return pair("cooperative-sticky").events


def test_a_rebalance_is_from_its_start_to_its_assignment(silver: Silver) -> None:
    """The second rebalance takes 2 s for ana's JoinGroup and 1 s for the leader."""
    first, second = silver("rebalances", "eager", "number")
    assert at(first, "started_ns", "ended_ns") == [0, 0]
    assert at(second, "started_ns", "ended_ns") == [1, 4]
    assert second["duration_ns"] == 3 * S
    assert second["join_ns"] == 2 * S
    assert (second["outcome"], second["cause"]) == ("completed", "member_joined")
    assert (second["culprit"], second["culprit_name"]) == ("ben-2", "ben")
    assert second["generation"] == 2
    assert second["members"] == second["expected"] == ["ana-1", "ben-2"]


def test_an_eager_member_pauses_and_a_cooperative_one_does_not(silver: Silver) -> None:
    """Ana pauses from her JoinGroup at 3 s to 4 s; ben owned nothing (KIP-429)."""
    (row,) = silver("pauses", "eager")
    assert (row["name"], row["ended"], row["number"]) == ("ana", "synced", 2)
    assert (row["partitions"], *at(row, "from_ns", "until_ns")) == (4, 3, 4)
    assert silver("pauses", "cooperative") == []


def test_partitions_of_an_eager_member_are_unread_while_it_pauses(
    silver: Silver,
) -> None:
    """Two of the unread partitions return to ana, two go to ben."""
    found = silver("unread", "eager", "position")
    assert [(row["name"], row["reader"], row["cause"]) for row in found] == [
        ("ana", "ana-1", "paused"),
        ("ana", "ben-2", "paused"),
    ]
    for row in found:
        assert (row["topic"], row["partitions"], row["number"]) == ("t", 2, 2)
        assert (row["unread_ns"], *at(row, "from_ns", "until_ns")) == (2 * S, 3, 4)
    paused, unread = silver("rebalances", "eager", "number")[1], 4 * S
    assert (paused["paused_ns"], paused["unread_ns"]) == (S, unread)
    assert silver("unread", "cooperative") == []


@scene
def _published_twice() -> Sequence[Event]:
    return pair().events


def published_again(events: Sequence[Event]) -> list[Event]:
    """Copies of the accounts among events, with parts missing."""
    return [
        {**event, "sequence": event["sequence"] + 100, "is_whole": False, "pauses": []}
        for event in events
        if event["kind"] == "rebalance_account"
    ]


def test_an_account_that_is_published_twice_counts_once(silver: Silver) -> None:
    """The complete account of the two counts."""
    for table in ("rebalances", "pauses", "unread", "moves"):
        found = silver(table, "published_twice")
        once = counted(silver(table, "eager"))
        assert counted({**row, "run": "eager"} for row in found) == once


def test_partitions_go_from_member_to_member(silver: Silver) -> None:
    """Two of four partitions have to move, and only they move."""
    for run in ("eager", "cooperative"):
        found = silver("ownership", run, "from_ns")
        assert [row["name"] for row in found] == ["ana"] * 4 + ["ben"] * 2
        assert {row["began"] for row in found} == {"assigned"}
        assert at(found[4], "from_ns", "until_ns") == [4, None]
        first, second = silver("moves", run, "number")
        assert (first["first_owned"], first["moved"], first["owned"]) == (4, 0, 4)
        assert (second["first_owned"], second["moved"]) == (0, 2)
        assert (second["least_moved"], second["members"]) == (2, 2)


@scene
def _waits() -> Sequence[Event]:
    stream = pair()
    stream.starts("leader_rejoined", "ana")
    rows = [("zoe", 5), ("ben", 5), ("ana", 3)]
    waits = [{"member_id": m, "waited_ns": ns, "came": True} for m, ns in rows]
    fields: dict[str, Any] = {"members": ["ana-1"], "duration_ns": 5, "waits": waits}
    joined = {"generation": 3, "gained": [], "lost": [], **fields}
    joined |= {"protocol": "range", "leader": "ana-1"}
    stream.say("join_completed", cause="rebalance_timeout", **joined)
    stream.wait(1)
    fields = {"bytes": 70, "metadata_bytes": 30, "generation": 3}
    stream.say("assignment_made", "ana", leader="ana-1", protocol="range", **fields)
    stream.say("member_synced", "ana")
    return stream.events


def test_for_whom_a_rebalance_waited(silver: Silver) -> None:
    """The member with the longest wait; of several, the one with the smallest id."""
    row = silver("rebalances", "waits", "number")[-1]
    assert (row["waited_for"], row["waited_ns"]) == ("ben", 5)
    assert (row["join_ended"], row["sync_ns"]) == ("rebalance_timeout", S)
    assert (row["assignment_bytes"], row["metadata_bytes"]) == (70, 30)
    assert (row["protocol"], row["leader"]) == ("range", "ana-1")


# -- members


@scene
def _static_in_stable() -> Sequence[Event]:
    stream = pair(instance="i-1")
    back(stream)
    stream.say("member_synced", "ana")
    return stream.events


def back(stream: Stream) -> None:
    """Another process replaces ana's, with the member id ana-9."""
    stream.ids["ana"] = "ana-9"
    usual = {"protocols": ["range"], "session_timeout_ms": 6_000}
    fields = {"replaced_member_id": "ana-1", "rebalance_timeout_ms": 7_000, **usual}
    stream.say("member_replaced", "ana", reason="restarted", **fields)
    for member_id, owned in (("ana-1", ((), (), (0, 1))), ("ana-9", ((0, 1),) * 2)):
        fields = parts(*owned) if len(owned) == 3 else parts(*owned, ())
        fields["member_id"] = member_id
        stream.say("partitions_changed", "ana", cause="replaced", **fields)


def test_a_static_member_is_one_owner_under_all_its_ids(silver: Silver) -> None:
    """A static member keeps its partitions without a rebalance or a pause (KIP-345)."""
    old, new, _ = (
        silver("memberships", "static_in_stable", "from_ns")[0],
        *[
            row
            for row in silver("memberships", "static_in_stable", "member_id")
            if row["member_id"] != "ana-1"
        ],
    )
    assert (old["how"], old["reason"], at(old, "until_ns")) == (
        "replaced",
        "restarted",
        [10],
    )
    assert (old["owner"], new["owner"], new["name"]) == ("i-1",) * 3
    assert (new["is_start_known"], new["session_timeout_ms"]) == (True, 6_000)
    replaced = silver("ownership", "static_in_stable", "from_ns")[-2:]
    assert [(row["began"], row["owner"]) for row in replaced] == [
        ("replaced", "i-1")
    ] * 2
    assert len(silver("pauses", "static_in_stable")) == 1


@scene
def _guests() -> Sequence[Event]:
    stream = pair()
    stream.ids["cleo"], stream.ids["dora"] = "cleo-7", "dora-8"
    stream.say("member_id_given", "cleo")
    stream.say("member_left", "cleo", cause="left", was_pending=True)
    full = "GROUP_MAX_SIZE_REACHED"
    stream.say("member_refused", cause="full", error=full, client_id="eve", host="/e")
    stream.say("member_kicked", "ben", cause="group_over_max_size", was_pending=False)
    stream.say("member_kicked", "dora", cause="full", was_pending=True)
    stream.say("member_kicked", "ana", cause="did_not_join_in_time", was_pending=False)
    return stream.events


def test_who_was_only_given_an_id_is_no_member(silver: Silver) -> None:
    """Only members that joined have memberships; both were kicked."""
    found = silver("memberships", "guests", "member_id")
    assert [(row["name"], row["how"]) for row in found] == [
        ("ana", "kicked"),
        ("ben", "kicked"),
    ]


def test_who_had_no_room(silver: Silver) -> None:
    """Members refused or removed because the group is full, but no late ones."""
    found = silver("refusals", "guests", "sequence")
    assert [(row["kind"], row["name"], row["cause"]) for row in found] == [
        ("member_refused", "eve", "full"),
        ("member_kicked", "ben", "group_over_max_size"),
        ("member_kicked", "dora", "full"),
    ]
    assert found[0]["error"] == "GROUP_MAX_SIZE_REACHED"
    assert (found[0]["member_id"], found[0]["host"]) == (None, "/e")


# -- coordinators, and missing events


@scene
def _load() -> Sequence[Event]:
    stream = pair()
    events = [*stream.events]
    stream.events.clear()
    stream.leaves("ben")
    (stream.events[-1])["partitions_lost"] = parts((), (), (2, 3))["partitions_lost"]
    stream.wait(1)
    members = ["ana-1", "ben-2"]
    stream.say("group_loaded", state="Stable", members=members, node=1)
    for name, own in (("ana", (0, 1)), ("ben", (2, 3))):
        owned = parts(own, (), ())
        stream.say("partitions_changed", name, cause="loaded", node=1, **owned)
    last = len(events)
    events += [
        {**e, "sequence": e["sequence"] + (0 if e["node"] else last)}
        for e in stream.events
    ]
    return events


def test_a_coordinator_that_moves_brings_back_what_it_had_not_stored(
    silver: Silver,
) -> None:
    """Ben's departure was not stored; ana's ownership continues unchanged."""
    ana, ben = silver("memberships", "load", "member_id")
    assert (ana["until_ns"], ben["until_ns"], ben["how"]) == (None, None, None)
    found = silver("ownership", "load", "from_ns")
    loaded = [row for row in found if row["began"] == "loaded"]
    assert [(row["name"], row["partition"]) for row in loaded] in (
        [("ben", 2), ("ben", 3)],
        [("ben", 3), ("ben", 2)],
    )
    assert len(found) == 4 + 2 + 2
    assert {row["from_node"] for row in loaded} == {1}
    (run,) = silver("runs", "load")
    assert run["nodes"] == [0, 1]


@scene
def _midway() -> Sequence[Event]:
    """The first known events of a group that is much older."""
    stream = pair()
    stream.events.clear()
    stream.rejoins("ana", protocols=["range"])
    stream.joined("all_joined", stream.now)
    stream.divided({"ana": [0, 1, 2], "ben": [3]})
    stream.say("member_left", "eve", cause="left", was_pending=False, member_id="eve")
    stream.wait(1)
    stream.starts("leader_rejoined", "ana")
    stream.say("assignment_made", "ana", protocol="range", leader="ana-1")
    stream.say("partitions_changed", "ana", cause="assigned", **parts((0,), (), (1,)))
    return stream.events


def test_what_began_before_the_events_is_not_made_up(silver: Silver) -> None:
    """Unknown starts stay unknown, and a rebalance without its start is not whole."""
    ana, ben = silver("memberships", "midway", "member_id")
    assert (ana["is_start_known"], ben["is_start_known"]) == (False, False)
    assert (ana["is_eager"], ben["is_eager"]) == (True, None)
    (row,) = silver("ownership", "midway")
    assert (row["partition"], row["until_ns"]) == (2, None)
    assert silver("pauses", "midway") == []
    (rebalance,) = silver("rebalances", "midway")
    assert (rebalance["cause"], rebalance["is_whole"]) == ("unseen", False)
    assert rebalance["generation"] == 3
    (moves,) = silver("moves", "midway")
    assert (moves["first_owned"], moves["owned"]) == (0, 4)


@scene
def _labelled() -> Sequence[Event]:
    labels = {"scenario": "roll", "seed": "7", "x": "y"}
    events = as_run(pair().events, "_", ODD)
    started = {**events[0], "kind": "node_started", "group": None, "node": 2}
    told = [{**events[0], "time_ns": BEGIN - S, "kind": "node_stopped"}, started]
    events += [{**e, "sequence": 90 + i, "group": None} for i, e in enumerate(told)]
    return [{**event, "labels": labels} for event in events]


def test_a_run_is_all_its_events(silver: Silver) -> None:
    """Events without a group belong to their run, too."""
    (run,) = silver("runs", "labelled")
    assert run["labels"] == {"scenario": "roll", "seed": "7", "x": "y"}
    assert (run["scenario"], run["seed"]) == ("roll", "7")
    assert at(run, "first_ns", "last_ns") == [-1, 4]
    assert (run["nodes"], run["groups"]) == ([0, 2], 1)
    assert run["events"] == len(with_accounts(pair().events)) + 2
    (other,) = silver("runs", "eager")
    assert (other["labels"], other["scenario"], other["seed"]) == ({}, None, None)


def test_a_group_may_have_any_name(silver: Silver) -> None:
    """A group with an odd name has the same rows as any other."""
    for name in (
        *("rebalances", "memberships", "ownership", "pauses", "unread", "moves"),
    ):
        found, same = silver(name, "labelled"), silver(name, "eager")
        assert {row["group"] for row in found} == {ODD}
        assert len(found) == len(same)


# -- commits


@scene
def _commits() -> Sequence[Event]:
    stream = pair()
    commits(stream, "ana", (0, 100, None), (1, 50, None))
    refuses(stream, "ana", (0, 180, None), (1, 60, None))
    refuses(stream, "ana", (0, 160, None))
    commits(stream, "ben", (0, 170, None))
    commits(stream, "ana", (1, 70, None))
    commits(stream, "ben", (0, 130, None))
    stream.say("offsets_committed", client_id="admin", offsets=offsets((0, 9, None)))
    return stream.events


def test_every_offset_of_a_commit_is_a_row(silver: Silver) -> None:
    """Offsets of refused commits have the error."""
    found = silver("commits", "commits", "sequence")
    assert [(row["name"], row["offset"], row["error"]) for row in found] == [
        ("ana", 100, None),
        ("ana", 50, None),
        *[("ana", offset, "UNKNOWN_MEMBER_ID") for offset in (180, 60, 160)],
        *[("ben", 170, None), ("ana", 70, None), ("ben", 130, None)],
        ("admin", 9, None),
    ]
    assert [row["is_first"] for row in found[:4]] == [True, False, True, False]


@scene
def _delivered() -> Sequence[Event]:
    stream = pair()

    def records(first: int, end: int, **more: Any) -> Event:
        counted = {"first": first, "end": end, "records": end - first}
        return {"topic": "t", "partition": 0, **counted, **more}

    stream.say(
        "delivery_account",
        again=[
            records(
                *(4, 6),
                is_certain=is_certain,
                previous_reader="ana-1",
                reader="ben-2",
                reason_again="expired",
            )
            for is_certain in (True, False)
        ],
        skips=[records(6, 9, reader="ben-2", reason_skipped="deleted")],
    )
    back = {"topic": "t", "partition": 1, "offset": 2, "previous_offset": 5}
    stream.say("offsets_went_back", "ana", cause="commit", rewinds=[back])
    stream.say("offsets_went_back", cause="admin", client_id="cli", rewinds=[back])
    return stream.events


def test_the_rows_of_the_account_of_delivery(silver: Silver) -> None:
    """Records sent again and skipped, and commits that went back, with names."""
    found = silver("delivery", "delivered")
    found.sort(key=lambda row: (row["sequence"], row["what"], row["position"]))
    names = ("what", "first", "end", "records", "reason", "name", "previous_id")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("again_certain", 4, 6, 2, "expired", "ben", "ana-1"),
        ("again_possible", 4, 6, 2, "expired", "ben", "ana-1"),
        ("skipped", 6, 9, 3, "deleted", "ben", None),
        ("went_back", 2, 5, None, "commit", "ana", None),
        ("went_back", 2, 5, None, "admin", "cli", None),
    ]


@scene
def _lag() -> Sequence[Event]:
    stream = pair()
    commits(stream, "ana", (0, 90, 100), (1, 50, 50))  # 10
    stream.starts("leader_rejoined", "ana")
    stream.wait(1)
    commits(stream, "ben", (2, 5, None))
    stream.joined("all_joined", stream.now)
    stream.divided({})
    for seconds, *told in (
        (2, (0, 95, 135), (1, 50, 60)),  # 40 + 10
        (1, (0, 130, 170), (1, 75, 70)),  # 40; the other offset is past the log end
        (1, (0, 170, 175)),  # 5
        (1, (0, 175, 220)),  # 45
    ):
        stream.wait(seconds)
        commits(stream, "ana", *told)
    stream.rebalance("leader_rejoined", "ana")
    return stream.events


def test_lag_is_built_up_and_worked_off(silver: Silver) -> None:
    """Lag is 10 before the rebalance, 50 after 2 s, at most 10 again after 4 s."""
    (row,) = silver("lags", "lag")
    assert row["number"] == 3
    assert (row["lag_before"], row["lag_peak"], row["lag_built"]) == (10, 50, 40)
    assert at(row, "ended_ns", "peak_ns", "worked_off_ns") == [11, 13, 15]
    assert row["catch_up_ns"] == 4 * S


@scene
def _twice() -> Sequence[Event]:
    stream = pair()
    stream.rebalance("leader_rejoined", "ana", owned={"ana": [0, 1, 2]})
    return stream.events


def test_a_partition_that_is_given_to_two(silver: Silver) -> None:
    """The first owner keeps the partition; it still counts as moved."""
    row = silver("ownership", "twice", "from_ns")[-1]
    assert (row["partition"], row["name"], row["until_ns"]) == (2, "ana", None)
    assert silver("moves", "twice", "number")[-1]["moved"] == 1
