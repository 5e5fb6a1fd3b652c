"""CPU seconds of simulations of large groups.

    python -m bench.simulation
    python -m bench.simulation hour growth

The worlds, each with one group of cooperative members:

- hour: 1,000 members for one virtual hour, with ten rebalances of all of them.
- form: 10,000 members form a group.
- growth: the group grows from 100 to 10,000 members, by 100 at a time.
- roll: a deployment replaces 1,000 pods, 20 at a time.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kohort.broker import telemetry
from kohort.simulation.scenario.measures import Measures
from kohort.simulation.scenario.model import parse
from kohort.simulation.scenario.play import Play


def _world(
    duration: str, members: int, *happenings: Mapping[str, object], partitions: int
) -> dict[str, object]:
    return {
        "duration": duration,
        # By default, the record of a group has at most 1 MB: some 5,000 members.
        "brokers": {"nodes": 3, "config": {"message.max.bytes": 100_000_000}},
        "topics": {"orders": {"partitions": partitions}},
        "groups": {"billing": {"members": members, "protocol": "cooperative"}},
        "happenings": list(happenings),
    }


WORLDS: Mapping[str, Mapping[str, object]] = {
    "hour": _world(
        "60m",
        1_000,
        # With a partition for each of the first members, a new one changes nothing:
        # its start is one rebalance of all.
        *({"at": 300 * n, "do": "start", "members": 1} for n in range(1, 11)),
        partitions=1_000,
    ),
    "form": _world("2m", 10_000, partitions=1_000),
    "growth": _world(
        "18m",
        100,
        {"at": "30s", "do": "scale", "step": 100, "every": "10s", "times": 99},
        partitions=1_000,
    ),
    "roll": _world(
        "20m", 1_000, {"at": "1m", "do": "roll", "at_once": 20}, partitions=1_000
    ),
}


def played(world: Mapping[str, Any], seed: int) -> tuple[Measures, float]:
    """Plays a world; returns its measures, and the CPU seconds."""
    scenario = parse("bench", world)
    before = time.process_time()
    measures = Play(scenario, seed).run()
    return measures, time.process_time() - before


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a row for each world."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "worlds", nargs="*", metavar="WORLD", help=f"{', '.join(WORLDS)} (all)"
    )
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--duration", help="in place of the world's, such as 5m")
    asked = parser.parse_args(arguments)
    for name in asked.worlds:
        if name not in WORLDS:
            parser.error(f"there is no world {name!r}, only {', '.join(WORLDS)}")
    # As `kohort simulate` does: lost connections are what is simulated.
    logging.getLogger("kohort").setLevel(logging.CRITICAL)
    telemetry.set_level(None, "critical")
    for name in asked.worlds or WORLDS:
        world = {**WORLDS[name]}
        if asked.duration:
            world["duration"] = asked.duration
        measures, cpu_s = played(world, asked.seed)
        row = {"world": name, "play_s": round(cpu_s, 1), **measures.as_json()}
        print(json.dumps(row))


if __name__ == "__main__":
    main()
