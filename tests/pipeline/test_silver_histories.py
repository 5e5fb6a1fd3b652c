"""Silver of random histories and of a scene for every cause equals plain loops.

Some hundred coordinators share one table, computed once; `tests.pipeline.silver_oracle`
implements the same definitions in plain Python.
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
from tests.events.plays.table import PLAYS
from tests.pipeline import silver_oracle
from tests.pipeline.events import (
    Event,
    Row,
    as_run,
    counted,
    frame,
    in_order,
    made,
    rows,
    with_accounts,
)
from tests.pipeline.random_histories import history
from tests.pipeline.silver_rows import check_plan

from kohort.pipeline.tables import BY_PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HISTORIES = 200
AGAIN = 40
"""Number of histories computed again, without the others, in another order."""
By = Mapping[str, Mapping[str, list[Row]]]
"""Rows by path and run."""


def told() -> dict[str, list[Event]]:
    """Events by run: random histories, and a scene for each kind and cause."""
    found: dict[str, list[Event]] = {
        f"history-{seed}": with_accounts(history(seed), log_end if seed % 2 else None)
        for seed in range(HISTORIES)
    }
    for (kind, cause), scene in PLAYS.items():
        context = Context()
        scene(context)
        run = f"{kind} {cause}"
        found[run] = with_accounts(recorded(context, run))
    return found


def log_end(_topic: str, partition: int, time_ns: int) -> int | None:
    """Logs that grow steadily, and faster than commits; one is in files."""
    return None if partition == 3 else time_ns // 10**8 % 10**7 * (partition + 1)


def by_run(tables: Mapping[str, Iterable[Row]]) -> By:
    """Groups rows by path and run; rebalances in order of their numbers."""
    found: dict[str, dict[str, list[Row]]] = {}
    for path, table in tables.items():
        found[path] = defaultdict(list)
        for row in sorted(table, key=lambda row: row.get("number") or 0):
            found[path][row["run"]].append(row)
    return found


@pytest.fixture(scope="module")
def events() -> dict[str, list[Event]]:
    """Events by run."""
    return told()


@pytest.fixture(scope="module")
def silver(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    events: Mapping[str, list[Event]],
) -> By:
    """All silver tables of all runs."""
    from kohort.pipeline.silver import TABLE_FUNCTIONS

    folder = tmp_path_factory.mktemp("silver")
    bronze = frame(spark, folder, itertools.chain.from_iterable(events.values()))
    tables = made(TABLE_FUNCTIONS, bronze, folder)
    return by_run({path: rows(tables[path]) for path in TABLE_FUNCTIONS})


# -- compared with loops


@pytest.mark.parametrize(
    "path",
    [
        "silver/memberships",
        "silver/ownership",
        "silver/pauses",
        "silver/commits",
        "silver/unread",
        "silver/returns",
        "silver/moves",
        "silver/lags",
    ],
)
def test_a_table_is_what_loops_make_of_its_words(
    events: Mapping[str, list[Event]], silver: By, path: str
) -> None:
    """Each run has the same rows in the table and from the loops."""
    seen = 0
    for run, history_ in events.items():
        own = [e for e in in_order(history_) if e["group"] == "g"]
        rebalances = silver["silver/rebalances"][run]
        wanted: Iterable[Row] = {
            "silver/memberships": lambda e, _: silver_oracle.memberships(e).values(),
            "silver/ownership": lambda e, _: silver_oracle.ownership(e),
            "silver/pauses": lambda e, _: silver_oracle.pauses(e),
            "silver/unread": lambda e, _: silver_oracle.unread(e),
            "silver/returns": lambda e, _: silver_oracle.returns(e),
            "silver/commits": lambda e, _: silver_oracle.commits(e),
            "silver/moves": lambda e, _: silver_oracle.moves(e),
            "silver/lags": silver_oracle.lags,
        }[path](own, rebalances)
        wanted = [{"run": run, "group": "g", **row} for row in wanted]
        seen += len(wanted)
        assert counted(silver[path][run]) == counted(wanted), run
    assert seen > 50, "there is something to compare"


def test_shares_are_what_no_assignment_can_better() -> None:
    """No assignment with the same shares needs fewer moves; all are tried."""
    dice = random.Random(8)
    for _ in range(60):
        members, size = range(dice.randrange(1, 4)), dice.randrange(1, 6)
        # -1: the previous owner is no longer a member.
        had = [dice.choice([-1, *members]) for _ in range(size)]
        shares = sorted(Counter(dice.choice(members) for _ in range(size)).values())
        least = min(
            sum(map(int.__ne__, had, has))
            for has in itertools.product(members, repeat=size)
            if sorted(Counter(has).values()) == shares
        )
        before = [had.count(member) for member in members]
        after = [*shares, *[0] * (len(members) - len(shares))]
        assert silver_oracle.least_moved(before, after) == least


def test_a_rebalance_is_its_account(
    events: Mapping[str, list[Event]], silver: By
) -> None:
    """Each rebalance equals its account in every field, whatever its outcome."""
    other = {
        "sequence": "started_sequence",
        "join_ended": "join_ended_by",
        "culprit": "member_id",
        "assignment_bytes": "bytes",
    }
    computed = {"run", "group", "number", "culprit_name", "waited_for", "waited_ns"}
    names = {c.name for c in BY_PATH["silver/rebalances"].columns} - computed
    outcomes: Counter[str] = Counter()
    for run, history_ in events.items():
        accounts = silver_oracle.accounts(history_)
        found = silver["silver/rebalances"][run]
        assert [row["number"] for row in found] == [*range(1, len(accounts) + 1)]
        for row, account in zip(found, accounts, strict=True):
            wanted = {name: account[other.get(name, name)] for name in names}
            assert {name: row[name] for name in names} == wanted, run
            outcomes[row["outcome"]] += 1
    assert outcomes.keys() >= {"completed", "emptied", "interrupted", "moved"}


# -- irrelevant differences


def test_neither_order_nor_company_matters(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    events: Mapping[str, list[Event]],
    silver: By,
) -> None:
    """Shuffled and repartitioned events of only some runs give the same rows.

    So a stream may recompute only the runs that a batch has touched.
    """
    from kohort.pipeline.silver import TABLE_FUNCTIONS

    again = {run: events[run] for run in itertools.islice(events, AGAIN)}
    mixed = [*itertools.chain.from_iterable(again.values())]
    random.Random(8).shuffle(mixed)
    folder = tmp_path_factory.mktemp("mixed")
    bronze = frame(spark, folder, mixed).repartition(7)
    tables = made(TABLE_FUNCTIONS, bronze, folder)
    for path in TABLE_FUNCTIONS:
        before = itertools.chain.from_iterable(silver[path][run] for run in again)
        assert counted(rows(tables[path])) == counted(before), path


# -- inputs


def test_tables_have_their_schemas(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tables have the right names, order and types; no plan contains Python."""
    from kohort.pipeline.silver import TABLE_FUNCTIONS
    from kohort.pipeline.table_functions import EVENTS, Frames, Options

    folder = tmp_path_factory.mktemp("empty")
    events_ = as_run(history(1), "a")
    frames = Frames(spark)
    frames[EVENTS] = frame(spark, folder, events_)
    wanted = {p: table for p, table in BY_PATH.items() if p.startswith("silver/")}
    assert TABLE_FUNCTIONS.keys() == wanted.keys()
    for path, table in wanted.items():
        made_ = TABLE_FUNCTIONS[path](frames, Options())
        schema = [(field.name, field.dataType) for field in made_.schema]
        assert schema == [(field.name, field.dataType) for field in table.schema()]
        check_plan(path, made_)
        # A build stores each table before the next one reads it.
        frames[path] = spark.createDataFrame([], table.ddl)
