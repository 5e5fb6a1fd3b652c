"""Silver and gold of transactions: random histories equal plain loops."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest
from tests.events.build import SECOND, Stream
from tests.events.transactions import Producer
from tests.pipeline import transactions_oracle
from tests.pipeline.events import Event, Row, as_run, frame, in_order, made, rows
from tests.pipeline.silver_rows import check_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HISTORIES = 60
STEPS = 60
ENDS = ("client_committed", "client_committed", "client_aborted", "timeout", "operator")
SILVER, GOLD = "silver/transactions", "gold/transactions"

Tables = Mapping[str, Mapping[str, list[Row]]]
"""Rows by path and run."""


def known() -> list[Row]:
    """A transaction that is added to, one that is open, and one in the next hour."""
    stream = Stream()
    producer, other = Producer(stream, "a"), Producer(stream, "b")
    producer.initializes()
    other.initializes()
    stream.wait(1)
    producer.begins(0)
    stream.wait(1)
    producer.begins(1, groups=["g", "f"])
    other.begins(0)
    stream.wait(3)
    producer.prepares("client_committed")
    stream.wait(1)
    producer.is_marked(0, held_back=7)
    producer.is_marked(1, held_back=2)
    producer.completes()
    stream.wait(3600)
    producer.begins(5)
    stream.wait(2)
    producer.ends("timeout", held_back=1)
    return as_run(stream.events, "known")


def history(seed: int) -> list[Row]:
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
            step(dice, producer)
        elif dice.random() < 0.1:
            producer.initializes(dice.choice(["app", "app-2"]))
        elif producer.state != "Ongoing" or dice.random() < 0.3:
            producer.begins(dice.randrange(4), groups=dice.choice([(), ["g"]]))
        else:
            producer.prepares(dice.choice(ENDS))
    first, last = dice.choice([(0, None), (5, None), (0, -5)])
    return as_run(stream.events[first:last], f"history-{seed}")


def step(dice: random.Random, producer: Producer) -> None:
    """A marker, the end, or another coordinator."""
    what = dice.choice(["marker", "marker", "complete", "load"])
    if what == "marker":
        producer.is_marked(dice.randrange(4), held_back=dice.randrange(50))
    elif what == "load":
        producer.is_loaded()
    else:
        producer.completes()


@pytest.fixture(scope="module")
def events() -> dict[str, list[Event]]:
    """Events by run."""
    told = [known(), *map(history, range(HISTORIES))]
    return {str(each[0]["run"]): in_order(each) for each in told}


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    events: Mapping[str, list[Event]],
) -> Tables:
    """The tables of transactions of all runs, from shuffled events."""
    from kohort.pipeline import gold, silver

    functions = {
        SILVER: silver.TABLE_FUNCTIONS[SILVER],
        GOLD: gold.TABLE_FUNCTIONS[GOLD],
    }
    folder = tmp_path_factory.mktemp("transactions")
    mixed = [*itertools.chain.from_iterable(events.values())]
    random.Random(8).shuffle(mixed)
    frames = made(functions, frame(spark, folder, mixed), folder)
    found: dict[str, dict[str, list[Row]]] = {}
    for path in functions:
        check_plan(path, frames[path])
        found[path] = defaultdict(list)
        for row in rows(frames[path]):
            found[path][row["run"]].append(row)
    return found


def test_transactions_of_a_known_history(tables: Tables) -> None:
    """Open for 4 s, undecided, and aborted by its timeout an hour later."""
    found = sorted(
        tables[SILVER]["known"], key=lambda r: (r["transactional_id"], r["number"])
    )
    names = ("transactional_id", "result", "cause", "partitions", "markers")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("a", "committed", "client_committed", 2, 2),
        ("a", "aborted", "timeout", 1, 1),
        ("b", None, None, 1, 0),
    ]
    first, second, _ = found
    assert (first["open_ns"], first["ending_ns"]) == (4 * SECOND, SECOND)
    assert (first["groups"], first["held_back"]) == (["f", "g"], 9)
    assert (second["open_ns"], second["client_id"]) == (2 * SECOND, "app")


def test_numbers_of_a_known_history(tables: Tables) -> None:
    """Two hours, and the whole run, whose hour is null."""
    found = {row["hour"]: row for row in tables[GOLD]["known"]}
    whole = found.pop(None)
    assert [row["transactions"] for _, row in sorted(found.items())] == [2, 1]
    assert (whole["committed"], whole["aborted"], whole["undecided"]) == (1, 1, 1)
    assert whole["aborts_by_cause"] == {"timeout": 1}
    assert (whole["open_p50_s"], whole["open_max_s"]) == (3, 4)
    assert (whole["held_back"], whole["held_back_max"]) == (10, 9)
    assert whole["transactional_ids"] == 2


def test_silver_is_what_loops_make_of_its_words(
    events: Mapping[str, list[Event]], tables: Tables
) -> None:
    """Each run has the same rows in the table and from the loops."""
    causes: Counter[str | None] = Counter()
    for run, told in events.items():
        wanted = transactions_oracle.transactions(told)
        assert by_key(tables[SILVER][run]) == by_key(wanted), run
        causes.update(row["cause"] for row in wanted)
    assert causes.keys() >= {*ENDS, "fenced", "loaded", None}


def by_key(found: list[Row]) -> dict[tuple[str, int], Row]:
    """Rows by their keys, without the run."""
    keys = {(row["transactional_id"], row["number"]): row for row in found}
    assert len(keys) == len(found)
    return {key: {**row, "run": None} for key, row in keys.items()}


def test_gold_is_what_loops_make_of_silver(
    events: Mapping[str, list[Event]], tables: Tables
) -> None:
    """Each hour and each run has the same numbers."""
    for run, told in events.items():
        wanted = transactions_oracle.gold(transactions_oracle.transactions(told))
        found = {row["hour"]: {**row, "run": None} for row in tables[GOLD][run]}
        assert found.keys() == {row["hour"] for row in wanted}
        for row in wanted:
            approximate = {
                name: pytest.approx(value) if name.endswith("_s") else value
                for name, value in row.items()
            }
            assert found[row["hour"]] == {**approximate, "run": None}, run
