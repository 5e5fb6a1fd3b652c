"""Plays each power and each fault with each client library; writes the table.

    python -m tests.clients_table --row 'OffsetFetch*' --client librdkafka --repeat 3
    python -m tests.clients_table --parallel 6 --results results.jsonl
    python -m tests.clients_table --again --repeat 2 --results results.jsonl
    python -m tests.clients_table --holds --results results.jsonl
    python -m tests.clients_table --page --results results.jsonl

Each cell, and each hold, is a line of JSON. The page is
docs/reference/clients-under-power.md.
It takes the toolchains that tests/interop needs.
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.clients_table import holds, page
from tests.clients_table.clients import CLIENTS, Client, Pair
from tests.clients_table.evidence import write_trace
from tests.clients_table.judge import judge, verdict, words
from tests.clients_table.play import Cell, NotStartedError, Timeouts
from tests.clients_table.producing import ProducerCell
from tests.clients_table.rows import BY_NAME, ROWS, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

STARTS = 3


class Run:
    """Cells of all clients, some at a time; writes a line of JSON for each."""

    def __init__(
        self, folder: Path, parallel: int, results: TextIO, traces: Path | None
    ) -> None:
        self.folder = folder
        self.turn = asyncio.Semaphore(parallel)
        self.results = results
        self.traces = traces

    async def lane(self, client: Client, rows: Sequence[Row]) -> None:
        """All rows of one client, one after the other, with the same processes."""
        pair = Pair(client, self.folder)
        try:
            for row in rows:
                async with self.turn:
                    await self._cell(client, pair, row)
        finally:
            await pair.stop()

    async def holds(self, client: Client) -> None:
        """Holds in both states, with low settings and with the defaults."""
        low = [
            (state, name, timeouts, holds.LOW_LIMIT_S)
            for state in holds.STATES
            for name, timeouts in holds.SETTINGS.items()
        ]
        default = Timeouts(client.session_ms, client.poll_ms, None)
        async with asyncio.TaskGroup() as lanes:
            lanes.create_task(self._holds(client, low))
            for state in holds.STATES:
                case = (state, "default", default, holds.DEFAULT_LIMIT_S)
                lanes.create_task(self._holds(client, [case]))

    async def _holds(
        self, client: Client, cases: Sequence[tuple[str, str, Timeouts, float]]
    ) -> None:
        pair = Pair(client, Path(tempfile.mkdtemp(dir=self.folder)))
        try:
            for state, name, timeouts, limit_s in cases:
                workers = await pair.ready()
                cell = holds.HoldCell(
                    workers, client.assignor, state, timeouts, limit_s
                )
                await cell.play()
                held = {"settings": name, **asdict(cell.held())}
                print(f"{client.name:14} {held}", flush=True)
                self._write({"hold": state, "client": client.name, **held})
                self._trace(f"hold-{state}-{name}-{client.name}", cell)
        finally:
            await pair.stop()

    def _write(self, line: Mapping[str, object]) -> None:
        self.results.write(json.dumps(line) + "\n")
        self.results.flush()

    async def _cell(self, client: Client, pair: Pair, row: Row) -> None:
        for start in range(1, STARTS + 1):
            workers = await pair.ready()
            if row.is_producer:
                sends = ProducerCell(row, workers, client.assignor)
                facts = await sends.play_producer()
                cell: Cell = sends
                break
            cell = Cell(row, workers, client.assignor)
            try:
                facts = judge(await cell.play())
                break
            except NotStartedError as error:
                print(f"{row.name} {client.name}: did not start: {error}")
                self._trace(f"{row.name}-{client.name}-start-{start}", cell)
                for worker in pair.workers.values():
                    worker.is_reusable = False
        else:
            return  # it has no result, so the page has no text for it
        said = words(facts, row)
        print(f"{row.name:40} {client.name:14} {said}", flush=True)
        line = {
            "row": row.name,
            "client": client.name,
            "version": client.version(),
            "starts": start,
            **facts.as_json(),
        }
        self._write(line)
        self._trace(f"{row.name}-{client.name}", cell)

    def _trace(self, name: str, cell: Cell) -> None:
        if self.traces is not None:
            write_trace(self.traces / f"{name}.txt", cell.evidence)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.clients_table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--row", action="append", help="a pattern; default: all")
    parser.add_argument("--client", action="append", help="a name; default: all")
    parser.add_argument("--holds", action="store_true", help="measure holds instead")
    parser.add_argument(
        "--again", action="store_true", help="only cells that surprised, by --results"
    )
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=2, help="cells at a time")
    parser.add_argument("--results", type=Path, default=Path("/dev/null"))
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--traces", type=Path, help="a folder: all that was seen")
    return parser.parse_args()


def _surprising(results: Path) -> set[tuple[str, str]]:
    """The cells with a play that has not ended with both members back."""
    played = [json.loads(line) for line in results.read_text().splitlines()]
    return {
        (each["row"], each["client"])
        for each in played
        if "row" in each
        and verdict(page.facts_of(each), BY_NAME[each["row"]]) != "comes back"
    }


async def _play(asked: argparse.Namespace) -> None:
    clients = [each for each in CLIENTS if each.name in (asked.client or [each.name])]
    wanted = _surprising(asked.results) if asked.again else None
    if asked.traces is not None:
        asked.traces.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, asked.results.open("a") as results:
        run = Run(Path(folder), asked.parallel, results, asked.traces)
        async with asyncio.TaskGroup() as lanes:
            for client in clients:
                rows = [
                    row
                    for _ in range(asked.repeat)
                    for row in ROWS
                    if any(fnmatch.fnmatch(row.name, each) for each in asked.row or "*")
                    and (wanted is None or (row.name, client.name) in wanted)
                ]
                lane = run.holds(client) if asked.holds else run.lane(client, rows)
                lanes.create_task(lane)


def main() -> int:
    """Plays the given cells, or writes the page."""
    asked = _asked()
    if asked.page:
        lines = asked.results.read_text().splitlines()
        page.write([json.loads(line) for line in lines])
    else:
        asyncio.run(_play(asked))
    return 0


if __name__ == "__main__":
    sys.exit(main())
