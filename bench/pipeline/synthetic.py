"""Events by the million, in the wide form of bronze.

    python -m bench.pipeline.synthetic --events 20000000 --out DIR

One run with many groups, of which the first has a third of all events, for as many
half hours as it takes, and four small ones: two seeds, each with the initial delay and
without. Histories are those of `bench.pipeline.lives`, some of each kind, repeated
with other members, times, offsets and numbers. The same arguments make the
same events.
"""

from __future__ import annotations

import argparse
import itertools
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import duckdb
import pyarrow as pa
from bench.pipeline.bronze_parquet import bronze_schema
from bench.pipeline.lives import Kind, Life

from kohort.broker.events.account import Account, Accounts
from kohort.broker.events.schema import COMMON

BEGIN_NS: Final = 1_748_822_400_000_000_000
"""2025-06-02 00:00 UTC: when all runs begin."""
NODES: Final = 3
VARIANTS: Final = 3
"""Lives of each kind."""
ROWS_PER_FILE: Final = 1_000_000

_USUAL: Final = (("crash", 2.0), ("leave", 3.0), ("pause", 1.0), ("move", 0.5))
BIG: Final = Kind("orders", 40, 120, 1.0, per_hour=(*_USUAL, ("roll", 1.0)))
KINDS: Final = (
    Kind("eager", 10, 24, 5.0, per_hour=(*_USUAL, ("roll", 0.5))),
    Kind("coop", 12, 36, 5.0, "cooperative-sticky", per_hour=(*_USUAL, ("roll", 1.0))),
    Kind("static", 8, 16, 5.0, "sticky", True, (*_USUAL, ("roll", 2.0))),
    Kind("full", 8, 16, 5.0, most=9, per_hour=(*_USUAL, ("crowd", 4.0))),
    Kind("loop", 6, 12, 5.0, per_hour=(*_USUAL, ("loop", 2.0))),
)
DEPLOY: Final = Kind("deploy", 12, 24, 5.0, per_hour=(("leave", 2.0),))

_COMMON: Final = tuple(field.name for field in COMMON)
_HEADER: Final = frozenset(
    {
        *("schema", "run", "labels", "node", "sequence", "wall_ns", "time_ns"),
        *("source", "arrived"),
    }
)


@dataclass(slots=True)
class Copy:
    """A group that lives through templates, one after the other.

    Attributes:
        run: its run.
        group: its id; None for events about no group.
        templates: that it lives through, in turns.
        rate: records per second and partition.
        lasts: how many turns it lasts.
        node: which node has it, from 0.
        generation: its generation so far.
    """

    run: str
    group: str | None
    templates: tuple[str, ...]
    rate: float
    lasts: int
    node: int
    generation: int = 0


def with_accounts(life: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A life with the accounts of its rebalances.

    ``started_sequence`` is the place of the start in the list, until it has a number.
    """
    accounts, found = Accounts(), list[dict[str, Any]]()
    places: dict[int, int] = {}
    for number, event in enumerate(life):
        places[number] = len(found)
        found.append({**event})
        who = {"run": "life", "group": "g", "node": event["hops"], "sequence": number}
        for account in accounts.take_all({**event, **who, "time_ns": event["t_ns"]}):
            fields = {name: getattr(account, name, None) for name in _COMMON}
            made = {**fields, **account.own_fields(), "kind": account.kind}
            made |= {"t_ns": event["t_ns"], "hops": account.node}
            if isinstance(account, Account):
                made["started_sequence"] = places[account.started_sequence]
            found.append(made)
    return found


class World:
    """All runs, and the templates of their groups."""

    def __init__(self, events: int, groups: int, seed: int) -> None:
        self.seed = seed
        self.turn_s = 1800 if events >= 1_000_000 else 300
        self.lives: dict[str, list[dict[str, Any]]] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.copies: list[Copy] = []
        self._add_broker("day", {"scenario": "day", "seed": str(seed)})
        kinds = {kind.name: self._live(kind) for kind in KINDS}
        small = list(itertools.islice(itertools.cycle(KINDS), groups - 1))
        each = sum(self._size(kinds[kind.name]) for kind in small)
        self._add("day", "orders", BIG, self._live(self._third_of(each)), 1_000_000)
        for i, kind in enumerate(small):
            names = kinds[kind.name]
            turned = (*names[i % VARIANTS :], *names[: i % VARIANTS])
            self._add("day", f"{kind.name}-{i:02}", kind, turned, 1_000_000)
        for pair, delay_ms in itertools.product((1, 2), (0, 3000)):
            self._add_deployment(pair, delay_ms)

    def _add_broker(self, run: str, labels: dict[str, str]) -> None:
        self.labels[run] = labels
        started = {"kind": "node_started", "t_ns": 0, "hops": 0}
        self.lives["broker"] = [started]
        self.copies += [Copy(run, None, ("broker",), 0, 1, n) for n in range(NODES)]

    def _add(
        self, run: str, group: str, kind: Kind, templates: tuple[str, ...], lasts: int
    ) -> None:
        node = len(self.copies) % NODES
        self.copies.append(Copy(run, group, templates, kind.rate, lasts, node))

    def _add_deployment(self, pair: int, delay_ms: int) -> None:
        run = f"deploy-{pair}-{delay_ms}"
        delay = {"group.initial.rebalance.delay.ms": str(delay_ms)}
        self._add_broker(run, {"scenario": "deploy", "seed": str(pair), **delay})
        for i in range(3):
            kind = replace(DEPLOY, delay_ms=delay_ms)
            name = f"deploy/{pair}/{i}"
            if f"{name}/{delay_ms}" not in self.lives:
                life = Life(kind, self.turn_s, f"{self.seed}/{name}")
                self.lives[f"{name}/{delay_ms}"] = with_accounts(life.live())
            self._add(run, f"deploy-{i}", kind, (f"{name}/{delay_ms}",), 2)

    def _live(self, kind: Kind) -> tuple[str, ...]:
        """Some lives of a kind: their names."""
        names = tuple(f"{kind.name}/{i}" for i in range(VARIANTS))
        for name in names:
            life = Life(kind, self.turn_s, f"{self.seed}/{name}")
            self.lives[name] = with_accounts(life.live())
        return names

    def _size(self, names: tuple[str, ...]) -> float:
        return sum(len(self.lives[name]) for name in names) / len(names)

    def _third_of(self, others: float) -> Kind:
        """The big group, with a commit rate that gives it half of others' events."""
        idle = self._size(self._live(replace(BIG, commit_s=1e9)))
        seconds = self.turn_s * 0.9 - 40
        commits = max(others / 2 - idle, BIG.members)
        return replace(BIG, commit_s=BIG.members * seconds / commits)

    def turn(self, number: int) -> Iterator[dict[str, Any]]:
        """Template of each copy in a turn; must be called turn by turn."""
        for i, copy in enumerate(self.copies):
            if number >= copy.lasts:
                continue
            template = copy.templates[number % len(copy.templates)]
            life = self.lives[template]
            yield {
                "copy": i,
                "run": copy.run,
                "labels": [*self.labels[copy.run].items()],
                "group": copy.group,
                "template": template,
                "suffix": f"-{uuid.uuid5(uuid.NAMESPACE_OID, f'{copy.group}{number}')}",
                "node": copy.node,
                "generation": copy.generation,
                "records": copy.rate * self.turn_s * number,
                "turn": number,
            }
            copy.generation += max((e.get("generation") or 0) for e in life)
            copy.node += life[-1]["hops"]


_ACCOUNT_ROWS: Final = (
    *("departures", "returns", "refused", "pieces", "pauses"),
    *("moves", "kept", "given_up", "unread"),
)
_IDS: Final = frozenset(
    {"member_id", "previous_id", "reader", "source", "target", "who"}
)
_TIMES: Final = frozenset({"since_ns", "until_ns"})


def _rows_of(name: str) -> str:
    """Rows of an account with the ids and times of a copy, in DuckDB's SQL."""
    fields = []
    for field in bronze_schema().field(name).type.value_type:
        value = f"r.{field.name}"
        if field.name in _IDS:
            value = f"{value} || c.suffix"
        elif field.name in _TIMES:
            value = f"{{begin}} + c.turn * {{turn_ns}} + {value}"
        elif field.name == "missing":
            value = f"list_transform({value}, lambda m: m || c.suffix)"
        fields.append(f"'{field.name}': {value}")
    return f"list_transform(t.{name}, lambda r: {{{{{', '.join(fields)}}}}})"


_COPIES: Final = pa.schema(
    [
        ("copy", pa.int32()),
        ("run", pa.string()),
        ("labels", pa.map_(pa.string(), pa.string())),
        ("group", pa.string()),
        ("template", pa.string()),
        ("suffix", pa.string()),
        ("node", pa.int32()),
        ("generation", pa.int32()),
        ("records", pa.float64()),
        ("turn", pa.int64()),
    ]
)
_SPECIAL: Final = MappingProxyType(
    {
        "schema": "1::INTEGER",
        "run": "c.run",
        "labels": "c.labels",
        "node": "((c.node + t.hops) % {nodes} + 1)::INTEGER",
        "sequence": "0::BIGINT",
        "time_ns": "{begin} + c.turn * {turn_ns} + t.t_ns",
        "wall_ns": "{begin} + c.turn * {turn_ns} + t.t_ns",
        "group": "c.group",
        "generation": "t.generation + c.generation",
        "member_id": "t.member_id || c.suffix",
        "replaced_member_id": "t.replaced_member_id || c.suffix",
        "leader": "t.leader || c.suffix",
        "previous_leader": "t.previous_leader || c.suffix",
        "members": "list_transform(t.members, lambda m: m || c.suffix)",
        "culprits": "list_transform(t.culprits, lambda m: m || c.suffix)",
        "gained": "list_transform(t.gained, lambda m: m || c.suffix)",
        "lost": "list_transform(t.lost, lambda m: m || c.suffix)",
        **{
            name: f"list_transform(t.{name}, lambda m: m || c.suffix)"
            for name in ("expected", "latecomers", "missing")
        },
        **{
            name: f"{{begin}} + c.turn * {{turn_ns}} + t.{name}"
            for name in ("started_ns", "joined_ns", "ended_ns", "settled_ns")
        },
        **{name: _rows_of(name) for name in _ACCOUNT_ROWS},
        "waits": (
            "list_transform(t.waits, lambda w: {{'member_id': w.member_id || c.suffix,"
            " 'waited_ns': w.waited_ns, 'came': w.came}})"
        ),
        "offsets": (
            "list_transform(t.offsets, lambda o: {{'topic': o.topic,"
            " 'partition': o.partition,"
            " 'offset': o.\"offset\" + (c.records * (1 + o.partition % 3 / 2))::BIGINT,"
            " 'end_offset':"
            " o.end_offset + (c.records * (1 + o.partition % 3 / 2))::BIGINT}})"
        ),
    }
)
"""Expressions of columns from a template's row t and a copy c; others are t's."""


class Writer:
    """Repeats histories, and writes them as Parquet, turn by turn."""

    def __init__(self, world: World, out: Path) -> None:
        self.out = out
        self.files = 0
        self.rows = 0
        self._held = 0
        self._counts: Counter[tuple[str, int]] = Counter()
        self._world = world
        self._db = duckdb.connect()
        self._do("SET preserve_insertion_order = true; SET threads = 2")
        self._do("SET TimeZone = 'UTC'")
        self._load()
        turn_ns = world.turn_s * 1_000_000_000
        numbers: Mapping[str, int] = {
            "begin": BEGIN_NS,
            "turn_ns": turn_ns,
            "nodes": NODES,
        }
        self._columns = [
            f"{_SPECIAL.get(name, f't.{chr(34)}{name}{chr(34)}').format(**numbers)}"
            f' AS "{name}"'
            for name in bronze_schema().names[:-2]
        ]

    def _do(self, statement: str) -> list[Any]:
        return self._db.execute(statement).fetchall()

    def _load(self) -> None:
        """The templates, as one table."""
        schema = pa.schema(
            [
                ("template", pa.string()),
                ("row", pa.int32()),
                ("t_ns", pa.int64()),
                ("hops", pa.int32()),
                *(field for field in bronze_schema() if field.name not in _HEADER),
            ]
        )
        self._do("CREATE SCHEMA s")
        self._do(
            "CREATE TABLE s.starts (copy INT, turn BIGINT, row INT, sequence BIGINT)"
        )
        for i, (name, life) in enumerate(self._world.lives.items()):
            named = [{**e, "template": name, "row": n} for n, e in enumerate(life)]
            self._db.register("life", pa.Table.from_pylist(named, schema=schema))
            verb = "INSERT INTO s.templates" if i else "CREATE TABLE s.templates AS"
            self._do(f"{verb} FROM life")
            self._db.unregister("life")

    def turn(self, number: int, most: int) -> None:
        """Adds a turn of all copies, `most` events at most."""
        copies = pa.Table.from_pylist([*self._world.turn(number)], schema=_COPIES)
        self._db.register("copies", copies)
        verb = (
            "INSERT INTO s.held" if self._held else "CREATE OR REPLACE TABLE s.held AS"
        )
        self._do(
            f"{verb} SELECT {', '.join(self._columns)}, c.copy, c.turn, t.row"
            " FROM s.templates AS t JOIN copies AS c USING (template)"
            # The coordinator already knows members of the turn before.
            " WHERE c.turn = 0 OR t.previous_state IS DISTINCT FROM 'Dead'"
            f" ORDER BY t.t_ns, c.copy, t.row LIMIT {most}"
        )
        self._db.unregister("copies")
        added = int(self._do("SELECT count(*) FROM s.held")[0][0]) - self._held
        self._held += added
        self.rows += added
        if self._held >= ROWS_PER_FILE:
            self.flush()

    def flush(self) -> None:
        """Numbers the held events, and writes them."""
        if not self._held:
            return
        bases = [
            {"run": run, "node": node, "base": count}
            for (run, node), count in self._counts.items()
        ]
        schema = pa.schema(
            [("run", pa.string()), ("node", pa.int32()), ("base", pa.int64())]
        )
        self._db.register("bases", pa.Table.from_pylist(bases, schema=schema))
        path = self.out / f"events-{self.files:04}.parquet"
        self._do(
            """CREATE OR REPLACE TABLE s.numbered AS
            SELECT h.* REPLACE (
                coalesce(b.base, 0) + row_number() OVER (
                    PARTITION BY h.run, h.node ORDER BY h.rowid
                ) AS sequence
            ), h.rowid AS place
            FROM s.held AS h
            LEFT JOIN bases AS b ON h.run = b.run AND h.node = b.node"""
        )
        # A start may be in the file before that of its account.
        self._do(
            """INSERT INTO s.starts SELECT copy, turn, "row", sequence
            FROM s.numbered WHERE kind = 'rebalance_started'"""
        )
        self._do(
            f"""COPY (
                SELECT n.* EXCLUDE (copy, turn, "row", place) REPLACE (
                    coalesce(s.sequence, n.started_sequence) AS started_sequence
                ), 'synthetic' AS source,
                make_timestamp_ns(n.time_ns)::TIMESTAMPTZ AS arrived
                FROM s.numbered AS n
                LEFT JOIN s.starts AS s ON n.kind = 'rebalance_account'
                AND s.copy = n.copy AND s.turn = n.turn
                AND s."row" = n.started_sequence
                ORDER BY n.place
            ) TO '{path}' (FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE 250000)"""
        )
        rows = self._do("SELECT run, node, count(*) FROM s.held GROUP BY ALL")
        for run, node, count in rows:
            self._counts[run, node] += count
        self._db.unregister("bases")
        self.files += 1
        self._held = 0


def write(out: Path, events: int, groups: int = 30, seed: int = 1) -> int:
    """Writes Parquet files with `events` events.

    Args:
        out: a folder, which may be there.
        events: how many.
        groups: of the run "day", whose first one has a third of all events.
        seed: the same makes the same.

    Returns:
        How many files there are.
    """
    out.mkdir(parents=True, exist_ok=True)
    writer = Writer(World(events, groups, seed), out)
    for number in itertools.count():
        if writer.rows >= events:
            break
        writer.turn(number, events - writer.rows)
    writer.flush()
    return writer.files


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--groups", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    wanted = parser.parse_args()
    began = time.perf_counter()
    files = write(wanted.out, wanted.events, wanted.groups, wanted.seed)
    took = time.perf_counter() - began
    print(f"{wanted.events} events in {files} files, {took:.0f} s")


if __name__ == "__main__":
    main()
