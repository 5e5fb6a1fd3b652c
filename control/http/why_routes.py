"""Explanations of rebalances over HTTP, from the remembered events."""

from __future__ import annotations

import asyncio
from typing import Any

from kohort.broker.clock import ns
from kohort.broker.server import Broker
from kohort.control.held_back import waiting
from kohort.control.http.operations import Fields, Operation, Text


class WhyQuery(Fields):
    """The group, and how much of it.

    Attributes:
        group: the id of the group.
        full: returns the output of `kohort why --json`.
    """

    group: Text
    full: bool = False


def operations(broker: Broker) -> list[Operation]:
    """The operation of explanations."""

    async def explain_group(query: WhyQuery) -> dict[str, Any]:
        """Explains the rebalances of a group.

        There are `findings`, and its rebalances and these as one `text`.
        """
        # The first question loads it: brokers start sooner.
        from kohort.control.why.history import history

        now_ns = ns(broker.cluster.clock.now())
        seen = broker.events.seen(query.group, transactions=True)
        held_back = waiting(broker)

        def explained() -> dict[str, Any]:
            events = (each.event for each in seen)
            found = history(events, query.group, now_ns, held_back)
            if query.full:
                return found.as_json()
            findings = [each.as_json() for each in found.findings]
            return {"text": found.text(), "findings": findings}

        # A third of a second for 20,000 events, and the broker has other work.
        return await asyncio.to_thread(explained)

    return [Operation("GET", "/why.json", explain_group)]
