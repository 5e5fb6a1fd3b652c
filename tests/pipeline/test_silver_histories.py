"""Silver of random histories, and of a scene for every cause: as loops have it.

Some hundred coordinators in one table, computed once; `tests.pipeline.plain` reads
the same definitions in plain Python, and `kohort why` has its own idea of them.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.context import Context
from tests.events.build import recorded
from tests.events.plays import PLAYS
from tests.pipeline import plain
from tests.pipeline.events import (
    Event,
    Row,
    as_run,
    frame,
    in_order,
    made,
    rows,
)
from tests.pipeline.histories import history

from kohort.control.why.fold import fold
from kohort.control.why.model import Facts, Gone
from kohort.pipeline.tables import BY_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HISTORIES = 200
AGAIN = 40
"""So many of them are computed once more, without the others, in another order."""
OUTCOMES = {"under_way": "open"}
"""Where `kohort why` has another word; the others are the same."""
By = Mapping[str, Mapping[str, list[Row]]]
"""Rows by path and run."""


def told() -> dict[str, list[Event]]:
    """The events of each run: histories, and a scene for each kind and cause."""
    found: dict[str, list[Event]] = {
        f"history-{seed}": [*history(seed)] for seed in range(HISTORIES)
    }
    for (kind, cause), scene in PLAYS.items():
        context = Context()
        scene(context)
        run = f"{kind} {cause}"
        found[run] = recorded(context, run)
    return found


def by_run(tables: Mapping[str, Iterable[Row]]) -> By:
    """The rows of each run; rebalances by their numbers."""
    found: dict[str, dict[str, list[Row]]] = {}
    for path, table in tables.items():
        found[path] = defaultdict(list)
        for row in sorted(table, key=lambda row: row.get("number") or 0):
            found[path][row["run"]].append(row)
    return found


@pytest.fixture(scope="module")
def events() -> dict[str, list[Event]]:
    """By run."""
    return told()


@pytest.fixture(scope="module")
def silver(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    events: Mapping[str, list[Event]],
) -> By:
    """All tables of all of them."""
    from kohort.pipeline.silver import MAKERS  # noqa: PLC0415 - needs pyspark

    folder = tmp_path_factory.mktemp("silver")
    bronze = frame(spark, folder, itertools.chain.from_iterable(events.values()))
    tables = made(MAKERS, bronze, folder)
    return by_run({path: rows(tables[path]) for path in MAKERS})


def facts(events: Mapping[str, list[Event]]) -> Iterable[tuple[str, Facts]]:
    """What `kohort why` makes of each run."""
    return ((run, fold(in_order(history), "g")) for run, history in events.items())


def counted(table: Iterable[Row]) -> Counter[str]:
    """Rows, whatever the order."""
    return Counter(repr(sorted(row.items())) for row in table)


# -- against a plain reading


@pytest.mark.parametrize(
    "path",
    [
        "silver/memberships",
        "silver/ownership",
        "silver/stand_stills",
        "silver/commits",
        "silver/reprocessed",
        "silver/moves",
        "silver/lags",
    ],
)
def test_a_table_is_what_loops_make_of_its_words(
    events: Mapping[str, list[Event]], silver: By, path: str
) -> None:
    """Row by row, for each run."""
    seen = 0
    for run, history_ in events.items():
        own = [e for e in in_order(history_) if e["group"] == "g"]
        rebalances = silver["silver/rebalances"][run]
        wanted: Iterable[Row] = {
            "silver/memberships": lambda e, _: plain.memberships(e).values(),
            "silver/ownership": lambda e, _: plain.ownership(e),
            "silver/stand_stills": lambda e, _: plain.stand_stills(e),
            "silver/commits": lambda e, _: plain.commits(e),
            "silver/reprocessed": lambda e, _: plain.reprocessed(e),
            "silver/moves": plain.moves,
            "silver/lags": plain.lags,
        }[path](own, rebalances)
        wanted = [{"run": run, "group": "g", **row} for row in wanted]
        seen += len(wanted)
        assert counted(silver[path][run]) == counted(wanted), run
    assert seen > 50, "there is something to compare"


def test_shares_are_what_no_assignment_can_better() -> None:
    """The least that has to move, by trying all assignments with the same shares."""
    dice = random.Random(8)
    for _ in range(60):
        members, size = range(dice.randrange(1, 4)), dice.randrange(1, 6)
        # -1: who had it is no member any more.
        had = [dice.choice([-1, *members]) for _ in range(size)]
        shares = sorted(Counter(dice.choice(members) for _ in range(size)).values())
        least = min(
            sum(map(int.__ne__, had, has))
            for has in itertools.product(members, repeat=size)
            if sorted(Counter(has).values()) == shares
        )
        before = [had.count(member) for member in members]
        after = [*shares, *[0] * (len(members) - len(shares))]
        assert plain.least_moved(before, after) == least


# -- against `kohort why`


def test_rebalances_are_those_of_why(
    events: Mapping[str, list[Event]], silver: By
) -> None:
    """How many, for what, when, how they ended, and what they made."""
    outcomes: Counter[str] = Counter()
    for run, told_ in facts(events):
        mine = [
            (
                row["cause"],
                row["started_ns"],
                row["outcome"],
                row["ended_ns"],
                row["duration_ns"],
                row["generation"],
                tuple(row["culprits"]),
                tuple(row["expected"]),
                tuple(row["members"] or ()),
                row["join_ended"],
            )
            for row in silver["silver/rebalances"][run]
        ]
        theirs = [
            (
                r.cause,
                r.started_ns,
                OUTCOMES.get(r.outcome.value, r.outcome.value),
                None if r.outcome == "under_way" else r.ended_ns,
                None if r.outcome == "under_way" else r.duration_ns,
                r.generation,
                r.culprits,
                r.expected,
                r.members,
                r.ended_wait,
            )
            for r in told_.rebalances
        ]
        assert mine == theirs, run
        outcomes.update(row[2] for row in mine)
    assert outcomes.keys() >= {"completed", "emptied", "interrupted", "moved", "open"}


def test_stand_stills_are_those_of_why(
    events: Mapping[str, list[Event]], silver: By
) -> None:
    """Together, as in tests/events/test_metrics_agree."""
    total = 0
    for run, told_ in facts(events):
        mine = sum(
            (row["until_ns"] or told_.until_ns) - row["from_ns"]
            for row in silver["silver/stand_stills"][run]
        )
        theirs = sum(
            row.duration_ns
            for rebalance in told_.rebalances
            for row in rebalance.stand_stills
            if row.partitions != 0
        )
        assert mine == theirs, run
        total += mine
    assert total > 0


def test_memberships_are_lives(events: Mapping[str, list[Event]], silver: By) -> None:
    """By their last end, or by what a coordinator loads that knows nothing of them."""
    hows: Counter[str | None] = Counter()
    for run, told_ in facts(events):
        lives = {life.member_id: life for life in told_.lives}
        mine = {row["member_id"]: row for row in silver["silver/memberships"][run]}
        assert mine.keys() == lives.keys(), run
        for member_id, life in lives.items():
            row = mine[member_id]
            hows[row["how"]] += 1
            how = None if life.how is None else life.how.value
            end = (life.until_ns, "forgotten" if life.how is Gone.UNSEEN else how)
            assert (row["until_ns"], row["how"]) == end, (run, member_id)
    ends = {"left", "removed", "expired", "replaced", "kicked", "forgotten", None}
    assert hows.keys() == ends


# -- what does not matter


def test_neither_order_nor_company_matters(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    events: Mapping[str, list[Event]],
    silver: By,
) -> None:
    """Late events, out of order, in other partitions, and only some of the runs.

    So a stream that makes the runs anew that a batch has touched comes to the same.
    """
    from kohort.pipeline.silver import MAKERS  # noqa: PLC0415 - needs pyspark

    again = {run: events[run] for run in itertools.islice(events, AGAIN)}
    mixed = [*itertools.chain.from_iterable(again.values())]
    random.Random(8).shuffle(mixed)
    folder = tmp_path_factory.mktemp("mixed")
    bronze = frame(spark, folder, mixed).repartition(7)
    tables = made(MAKERS, bronze, folder)
    for path in MAKERS:
        before = itertools.chain.from_iterable(silver[path][run] for run in again)
        assert counted(rows(tables[path])) == counted(before), path


# -- what they are made of


def test_tables_have_their_schemas(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Names, order and types; and nothing of Python in any plan."""
    from kohort.pipeline.makers import EVENTS, Options  # noqa: PLC0415
    from kohort.pipeline.silver import MAKERS  # noqa: PLC0415 - needs pyspark

    folder = tmp_path_factory.mktemp("empty")
    events_ = as_run(history(1), "a")
    frames = {EVENTS: frame(spark, folder, events_)}
    wanted = {p: table for p, table in BY_PATH.items() if p.startswith("silver/")}
    assert MAKERS.keys() == wanted.keys()
    for path, table in wanted.items():
        frames[path] = MAKERS[path](frames, Options())
        schema = [(field.name, field.dataType) for field in frames[path].schema]
        assert schema == [(field.name, field.dataType) for field in table.schema()]
        plan = frames[path]._jdf.queryExecution().toString()  # noqa: SLF001
        assert "== Physical Plan ==" in plan
        for word in ("Python", "Pandas", "Arrow", "CartesianProduct", "NestedLoop"):
            assert word not in plan, path
