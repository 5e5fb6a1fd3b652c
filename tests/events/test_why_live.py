"""Real members at a real broker: the history of their group, and ``kohort why``."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner
from tests.client.stage import PATIENCE, consumer, crash, fill, poll_until

from kohort.broker.server import Broker
from kohort.control.commands.why import why
from kohort.control.group import Group, UnknownGroupError
from kohort.control.http.server import Control
from kohort.control.why import history
from kohort.testing import Kohort

CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}


async def asked(control: Control, *options: str) -> str:
    """The output of the command that asks a broker about the group g."""
    arguments = ["g", "--http", control.url, *options]
    result = await asyncio.to_thread(CliRunner().invoke, why, arguments)
    assert result.exit_code == 0
    return result.output


async def test_a_rebalance_that_hangs() -> None:
    """It lasts until now and names the missing member; the same over HTTP."""
    async with Broker(CONFIG) as broker:
        await fill(broker, counts=[0] * 2)
        group = Group(broker, "g")
        ana, ben, cleo = (
            consumer(broker, "t", group_id="g", client_id=name)
            for name in ("ana", "ben", "cleo")
        )
        await ana.start()
        await poll_until(lambda: len(ana.assignment()) == 2, ana)
        await ben.start()
        await poll_until(lambda: len(ben.assignment()) == 1, ana, ben)
        await crash(ben)
        await cleo.start()

        def waits() -> bool:
            found = group.history()
            return "waiting for ben" in found.explain(found.rebalances[-1])

        await poll_until(waits, ana, cleo)
        *ended, hanging = group.history().rebalances
        (last_event,) = history(broker.events.recent("g"), "g").rebalances[-1:]
        async with Control(broker) as control, asyncio.timeout(PATIENCE):
            text = await asked(control)
            told = json.loads(await asked(control, "--json"))
        last = told["rebalances"][-1]
        assert "waiting for ben" in last["words"]
        assert last["ended_ns"] > hanging.ended_ns > last_event.ended_ns
        assert len(ended) == 2
        for each in ended:
            assert group.history().explain(each) in " ".join(text.split())
        await ana.close()
        await cleo.close()


async def test_a_group_that_there_is_not() -> None:
    """The error names the nearest group, or all groups."""
    async with Broker(CONFIG) as broker:
        with pytest.raises(UnknownGroupError) as error:
            Group(broker, "g").history()
        assert str(error.value) == "there is no group 'g'; there are no groups yet"
        await fill(broker, counts=[0])
        async with consumer(broker, "t", group_id="billing") as ana:
            await poll_until(lambda: bool(ana.assignment()), ana)
            with pytest.raises(UnknownGroupError, match="did you mean 'billing'"):
                Group(broker, "biling").history()
            with pytest.raises(LookupError, match="the groups are: 'billing'"):
                Group(broker, "x").history()


@pytest.mark.kohort(clock="manual")
def test_a_clock_that_a_test_moved(kohort: Kohort) -> None:
    """The advance is the cause, in the sentence and in the only finding."""
    ana = kohort.member("billing", client_id="ana")
    ana.join()
    ana.sync()
    kohort.clock.advance(46, credit_heartbeats=False)
    found = kohort.group("billing").history()
    assert found.explain(found.last).startswith(
        "Generation 2: ana's session expired 45.0 s after it was last heard of; "
        "before that, a test moved the clock ahead by 46.0 s; "
    )
    assert [each.code for each in found.findings] == ["clock-advanced"]
    (moved,) = [e for e in kohort.events() if e["kind"] == "clock_advanced"]
    assert moved["until_ns"] - moved["time_ns"] == 46 * 10**9
