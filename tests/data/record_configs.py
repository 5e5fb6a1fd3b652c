"""Asks Apache Kafka about its configuration, for `tests/broker/test_config_cases.py`.

Usage: python -m tests.data.record_configs HOST PORT kafka-4.3/configs.json

The broker has to be new: KRaft, one node with the id 1 that is broker and controller,
and the settings of `STARTED_WITH`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.broker import config_cases
from tests.wire.client import connected_to

PAUSE_S = 0.1


async def record(host: str, port: int) -> dict[str, object]:
    """The answers of a broker."""
    async with connected_to(host, port) as client:
        await config_cases.prepare(client)
        described = {
            f"{kind} {name}": (await config_cases.describe(client, kind, name))[1]
            for kind, name in config_cases.DESCRIBED
        }
        refused = {
            f"{kind} {name}": (await config_cases.describe(client, kind, name))[0]
            for kind, name in config_cases.NOT_DESCRIBED
        }
        keys = {}
        for name, row in described["4 1"].items():
            value = "1" if row[0] is None else row[0]
            keys[name] = [value, await config_cases.check_key(client, name, value)]
        played = [
            [repr(case), await config_cases.play(client, case, PAUSE_S)]
            for case in config_cases.CASES
        ]
    return {"described": described, "refused": refused, "keys": keys, "played": played}


if __name__ == "__main__":
    recorded = asyncio.run(record(sys.argv[1], int(sys.argv[2])))
    lines = [
        f"{json.dumps(part)}: {{\n"
        + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
        + "\n}"
        if isinstance(found, dict)
        else f"{json.dumps(part)}: [\n"
        + ",\n".join(json.dumps(each) for each in found)  # type: ignore[attr-defined]
        + "\n]"
        for part, found in recorded.items()
    ]
    Path(sys.argv[3]).write_text("{\n" + ",\n".join(lines) + "\n}\n")
