"""Runs whose tables are compared with loops: events of many coordinators.

Each run of two random groups crosses an hour, with an event at its very start. They
have accounts and findings, some of them published twice, records that were delivered
again, and labels by which some differ in the initial delay alone. Other runs have a
scene for every cause, groups that play a script, random transactions, and hours in
which little happens.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from tests.coordinator.context import Context
from tests.events.build import Stream, recorded
from tests.events.plays.table import PLAYS
from tests.events.transactions import Producer
from tests.pipeline.events import (
    Event,
    Row,
    as_run,
    in_order,
    with_accounts,
    with_findings,
)
from tests.pipeline.played_scenes import played
from tests.pipeline.random_histories import history

PAIRS = 60
"""Runs of two random groups."""
PRODUCERS = 30
"""Runs of random transactions."""
STEPS = 60
HOUR_NS = 3600 * 10**9
LATEST_NS = 10**17
"""Numbers of ns above this are times; others are durations."""
ODD = "odd/ä ' \" `${x}` %, #\t"
"""The name of the second group of a run."""
DELAY = "group.initial.rebalance.delay.ms"
ENDS = ("client_committed", "client_committed", "client_aborted", "timeout", "operator")
SCRIPTS = (
    "a rolling restart, eager",
    "a crash loop, cooperative",
    "a slow poller, eager",
    "members that hang",
    "a rolling restart, consumer",
    "static restarts, consumer",
    "a crash loop, consumer",
)


def told() -> dict[str, list[Event]]:
    """Events by run."""
    runs: list[Sequence[Event]] = [*map(pair, range(PAIRS))]
    runs += map(transactions, range(PRODUCERS))
    for (kind, cause), scene in PLAYS.items():
        context = Context()
        scene(context)
        runs.append(with_accounts(recorded(context, f"{kind} {cause}")))
    runs += (with_findings(played(name).events(name, "g")) for name in SCRIPTS)
    runs += (slow(), midway())
    return {str(each[0]["run"]): in_order(each) for each in runs}


# -- two random groups


def pair(number: int) -> list[Event]:
    """A run of two random groups."""
    dice, run = random.Random(number), f"pair-{number}"
    events = as_run(history(2 * number), run, "g")
    # The second one is there in most runs, so that some pairs have a group in common.
    if number % 5:
        other = as_run(history(2 * number + 1), run, ODD)
        events += ({**e, "sequence": e["sequence"] + 100_000} for e in other)
    hour = dice.choice(events)["time_ns"] if number % 3 else 0
    events = [_later(each, -hour % HOUR_NS) for each in events]
    whole = with_findings(events, log_end if number % 2 else None)
    more = [*_delivered(dice, whole), *_again(dice, whole)]
    last = max(each["sequence"] for each in whole)
    whole += ({**each, "sequence": n} for n, each in enumerate(more, last + 1))
    labels = _labels(number)
    return [{**each, "labels": labels} for each in whole]


def _later(value: Any, ns: int, name: str = "") -> Any:
    """An event, or a part of it, whose times are later."""
    if isinstance(value, dict):
        return {key: _later(each, ns, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_later(each, ns) for each in value]
    is_time = name.endswith("_ns") and isinstance(value, int) and value > LATEST_NS
    return value + ns if is_time else value


def log_end(_topic: str, partition: int, time_ns: int) -> int | None:
    """Logs that grow steadily, and faster than commits; one is in files."""
    return None if partition == 3 else time_ns // 10**8 % 10**7 * (partition + 1)


def _labels(number: int) -> dict[str, str]:
    """In each four runs, two differ in the delay alone; some runs have no pair."""
    delays = {0: "0", 1: "3000", 2: "soon", 3: "0", 4: "500"}
    labels = {DELAY: delays[number % 5], "scenario": f"s{number // 10}", "seed": "1"}
    if number % 7 == 3:
        del labels["seed"]
    if number % 11 == 3:
        labels["x"] = "y"
    return {} if number % 13 == 12 else labels


def _delivered(dice: random.Random, events: Sequence[Event]) -> Iterator[Event]:
    """Accounts of delivery, and commits that went back, at times of other events."""
    names = ("received", "again_certain", "again_possible", "skipped", "uncommitted")
    for _ in range(dice.randrange(6)):
        event = dice.choice([e for e in events if e["kind"] == "member_joined"])
        own = {**event, "cause": dice.choice(["commit", "admin"])}
        part = {"topic": "t", "partition": dice.randrange(3)}
        if dice.random() < 0.3:
            nobody = dict.fromkeys(("member_id", "instance_id"))
            back = [{**part, "offset": 2, "previous_offset": 5}] * dice.randrange(1, 3)
            who: Row = dice.choice([{}, nobody])
            yield {**own, **who, "kind": "offsets_went_back", "rewinds": back}
            continue
        readers = [event["member_id"], "unseen"]
        row = {**part, "first": 3, "end": 9, "records": dice.randrange(1, 6)}
        row |= {
            "reader": dice.choice(readers),
            "previous_reader": dice.choice([*readers, None]),
        }
        row |= {"is_certain": dice.random() < 0.5, "reason_again": "expired"}
        row |= {"reason_skipped": "deleted"}
        numbers = {name: dice.randrange(9) for name in names}
        rows = {"again": [row] * dice.randrange(3), "skips": [row] * dice.randrange(2)}
        yield {**own, "kind": "delivery_account", **numbers, **rows}


def _again(dice: random.Random, events: Sequence[Event]) -> Iterator[Event]:
    """Accounts that are published twice, and revisions of findings."""
    for event in events:
        if dice.random() < 0.2 and event["kind"] == "rebalance_account":
            yield {**event, "is_whole": dice.random() < 0.1, "pauses": [], "moves": []}
        if dice.random() < 0.2 and event["kind"] == "unread_account":
            yield {**event, "unread": []}
        if dice.random() < 0.4 and event["kind"] == "finding":
            more = {"unread_ns": 5, "paused_ns": 7, "records": 3, "saving_ns": 2}
            yield {**event, "finding": f"{event['finding']}/2", **more}
            is_gone = dice.random() < 0.3
            later = {"revision": 2, "title": "later", "is_withdrawn": is_gone}
            yield {**event, **later}


# -- written by hand


def slow() -> list[Row]:
    """Two members over several hours, one of them for no time in the last."""
    stream = Stream()
    stream.comes("ana", "i-1")
    stream.rebalance("member_joined", "ana", owned={"ana": [0, 1]}, window_s=3)
    stream.wait(2_797 + 5_000)
    stream.comes("ben")
    owned = {"ana": [0], "ben": [1]}
    joins = {"ana": 700.0}
    stream.rebalance("member_joined", "ben", joins=joins, owned=owned, sync_s=1)
    stream.wait(9_000)
    stream.expires("ben")
    stream.rebalance("session_expired", "ben", owned={"ana": [0, 1]})
    for name, cause in (("eve", "full"), ("eve", "full"), ("dora", "fenced")):
        stream.say("member_refused", None, cause=cause, client_id=name, error="E")
    stream.say("member_kicked", "ana", cause="group_over_max_size", was_pending=False)
    stream.starts("leader_rejoined", "ana")
    rows = [("zoe", 5), ("ben", 5), ("ana", 3)]
    waits = [{"member_id": m, "waited_ns": ns, "came": True} for m, ns in rows]
    stream.joined("rebalance_timeout", stream.now - 5, waits)
    stream.divided({"ana": [0, 1]})
    stream.wait(1)
    stream.starts("leader_rejoined", "ana")
    stream.say("node_stopped", group=None, node=2)
    return as_run(with_accounts(stream.events), "slow")


def midway() -> list[Row]:
    """The first known events of a group that is much older."""
    stream = Stream()
    stream.comes("ana")
    stream.comes("ben")
    stream.events.clear()
    stream.rejoins("ana", protocols=["range"])
    stream.joined("all_joined", stream.now)
    stream.divided({"ana": [0, 1, 2], "ben": [3]})
    stream.say("member_left", "eve", cause="left", was_pending=False, member_id="eve")
    stream.wait(1)
    stream.rebalance("leader_rejoined", "ana", owned={"ana": [0], "ben": [1, 3]})
    return as_run(with_accounts(stream.events), "midway")


# -- transactions


def transactions(seed: int) -> list[Row]:
    """Three producers do anything; the events may begin or end in the middle."""
    dice = random.Random(seed)
    stream = Stream()
    producers = [Producer(stream, name) for name in "abc"]
    for producer in producers:
        producer.initializes()
    for _ in range(STEPS):
        stream.wait(dice.choice([0.001, 0.5, 30, 900]))
        producer = dice.choice(producers)
        if producer.state in {"PrepareCommit", "PrepareAbort"}:
            _step(dice, producer)
        elif dice.random() < 0.1:
            producer.initializes(dice.choice(["app", "app-2"]))
        elif producer.state != "Ongoing" or dice.random() < 0.3:
            producer.begins(dice.randrange(4), groups=dice.choice([(), ["g"]]))
        else:
            producer.prepares(dice.choice(ENDS))
    first, last = dice.choice([(0, None), (5, None), (0, -5)])
    return as_run(stream.events[first:last], f"transactions-{seed}")


def _step(dice: random.Random, producer: Producer) -> None:
    """A marker, the end, or another coordinator."""
    what = dice.choice(["marker", "marker", "complete", "load"])
    if what == "marker":
        producer.is_marked(dice.randrange(4), held_back=dice.randrange(50))
    elif what == "load":
        producer.is_loaded()
    else:
        producer.completes()
