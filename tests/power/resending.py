"""Checks producers that continue after a restart."""

from __future__ import annotations

from tests.power.client import Client
from tests.power.model import World


def carries_on(client: Client, world: World) -> list[str]:
    """A producer that sends its last batch again gets its old offset."""
    wrong = []
    given = client.new_producer_id()
    if given in world.producer_ids:
        wrong.append(f"producer id {given} is given again")
    for name, topic in world.topics.items():
        for index, part in enumerate(topic.parts):
            last = part.batches[-1] if part.batches else None
            if last is None or last.producer_id < 0 or last.first < part.start:
                continue
            answer = client.send((name, index), last.data)
            if (answer.error_code, answer.base_offset) != (0, last.first):
                wrong.append(
                    f"{name[:20]}-{index}: the last batch, at {last.first}, is sent "
                    f"again, and {answer} comes back"
                )
    return wrong
