"""Power over groups, faults and the clock, over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.broker.test_cluster import heartbeat, offsets, stable, until
from tests.control.asking import Asking, asking
from tests.patience import PATIENCE_S
from tests.wire.client import WireClient, connected
from tests.wire.requests import commit_offsets

from kohort.control.clock_verbs import LATEST_NS, MOST_SECONDS
from kohort.control.http import long_polls

GROUP = "/v1/groups/g"


@contextlib.asynccontextmanager
async def playing(**options: Any) -> AsyncIterator[tuple[Asking, WireClient, str]]:
    """An HTTP client, a Stable group "g" with one member, and the member's id."""
    async with asking(**options) as client, connected(client.broker) as member:
        yield client, member, await stable(member)


async def test_a_group_is_shown_and_listed() -> None:
    """With its members; the groups in another state are left out if wanted."""
    async with playing() as (client, member, member_id):
        status, shown = await client.get(GROUP)
        assert status == 200
        assert (shown["state"], shown["generation"], shown["leader"]) == (
            "Stable",
            1,
            member_id,
        )
        (row,) = shown["members"]
        assert (row["member_id"], row["waits_for"]) == (member_id, None)
        client.broker.cluster.create_topic("t", 1, 1)
        await member.call("OffsetCommit", 7, offsets(3, group="other"))
        _, found = await client.get("/v1/groups")
        assert found["total"] == 2
        rows = {each["group"]: each for each in found["groups"]}
        assert (rows["g"]["members"], rows["g"]["state"]) == (1, "Stable")
        assert (rows["other"]["members"], rows["other"]["state"]) == (0, "Empty")
        for query, names in (("state=Stable", ["g"]), ("limit=1", None)):
            _, found = await client.get(f"/v1/groups?{query}")
            assert len(found["groups"]) == 1
            assert names in (None, [each["group"] for each in found["groups"]])
            assert found["total"] == 2


async def test_an_unknown_group_is_404() -> None:
    """The sentence has the name that was meant."""
    async with playing() as (client, _, _):
        for path in ("/v1/groups/h", "/v1/groups/h/offsets"):
            status, answer = await client.get(path)
            assert status == 404
            assert "'g'" in answer["error"]
        for verb in ("kick", "expire", "mute", "unmute"):
            path = f"/v1/groups/h/{verb}"
            assert "'g'" in await client.refusal(path, {"member": "a"}, 404)
        assert "'g'" in await client.refusal("/v1/groups/h/rebalance", None, 404)


async def test_a_member_goes() -> None:
    """Its next request is that of an unknown member."""
    async with playing() as (client, member, member_id):
        body = {"member_id": member_id}
        status, shown = await client.post(f"{GROUP}/kick", body)
        assert (status, shown["members"], shown["state"]) == (200, [], "Empty")
        assert await heartbeat(member, member_id) == 25


async def test_a_member_has_one_name() -> None:
    """None is no name, and with two of them either might be wrong."""
    async with playing() as (client, _, _):
        wrong: list[dict[str, object]] = [{}, {"member": None}, {"member": 1}]
        for body in (*wrong, {"member": "a", "client_id": "b"}):
            await client.refusal(f"{GROUP}/kick", body, 400)


async def test_an_unknown_member_is_404() -> None:
    """The sentence lists the members."""
    async with playing() as (client, _, member_id):
        for verb in ("kick", "expire", "mute", "unmute"):
            path = f"{GROUP}/{verb}"
            assert member_id in await client.refusal(path, {"member": "ana"}, 404)


async def test_a_verb_that_is_refused() -> None:
    """409 in this state, 400 with a wrong field; each names what would be right."""
    async with playing() as (client, _, _):
        assert "not held" in await client.refusal(f"{GROUP}/release", None, 409)
        sentence = await client.refusal(f"{GROUP}/hold", {"state": "Stable"}, 400)
        states = "PreparingRebalance, CompletingRebalance, Assigning, Reconciling"
        assert sentence == f"state must be one of {states}"


async def test_a_limit_and_a_hold_of_a_group_that_is_yet_to_come() -> None:
    """They are shown, as they will count."""
    async with asking() as client:
        assert (await client.get(GROUP))[0] == 404
        _, shown = await client.post(f"{GROUP}/limit", {"max_size": 2})
        assert (shown["state"], shown["max_size"]) == ("Dead", 2)
        assert (await client.get(GROUP))[1] == shown
        await client.post(f"{GROUP}/limit", {"max_size": None})
        assert (await client.get(GROUP))[0] == 404
        for wrong in ({}, {"max_size": 0}):
            assert "max_size" in await client.refusal(f"{GROUP}/limit", wrong, 400)


async def test_a_node_restarts() -> None:
    """Its connections have ended, and it is there again."""
    async with asking(nodes=2) as client, connected(client.broker) as member:
        assert await client.post("/v1/nodes/1/restart") == (
            200,
            {"node": 1, "running": True},
        )
        assert client.is_running(1)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await stable(member)
        await client.refusal("/v1/nodes/7/restart", None, 404)


async def test_another_cluster() -> None:
    """The answer has its id; what the HTTP port shows is the new cluster's."""
    async with asking() as client:
        client.broker.cluster.create_topic("t", 1, 1)
        before = client.broker.cluster.id
        status, answer = await client.post("/v1/cluster/replace")
        assert (status, answer) == (200, {"cluster_id": client.broker.cluster.id})
        assert client.broker.cluster.id != before
        assert (await client.get("/v1/cluster"))[1]["topics"] == []


async def test_the_offsets_of_a_group() -> None:
    """The end of the log is beside each commit, and the lag is their distance."""
    async with playing() as (client, member, _):
        client.broker.cluster.create_topic("t", 2, 1)
        await member.call("OffsetCommit", 7, offsets(0, group="h"))
        row = {"topic": "t", "partition": 0, "committed": 0, "end": 0, "lag": 0}
        assert await client.get("/v1/groups/h/offsets") == (200, {"offsets": [row]})
        assert await client.get(f"{GROUP}/offsets") == (200, {"offsets": []})


# -- conditions


async def test_conditions_are_awaited() -> None:
    """The answer comes with the event that meets the last of them."""
    async with asking() as client, connected(client.broker) as member:
        client.broker.cluster.create_topic("t", 1, 1)
        conditions = {"state": "Stable", "members": 1, "generation": 1, "rebalances": 1}
        query = urllib.parse.urlencode(conditions)
        awaited = asyncio.create_task(client.get(f"{GROUP}/until?{query}&timeout=60"))
        committed = f"{GROUP}/until?topic=t&partition=0&offset=3&timeout=60"
        awaits_commit = asyncio.create_task(client.get(committed))
        member_id = await stable(member)
        status, shown = await awaited
        assert (status, shown["state"]) == (200, "Stable")
        assert not awaits_commit.done()
        commit = commit_offsets("t", (0, 3), member_id=member_id, generation=1)
        await member.call("OffsetCommit", 7, commit)
        assert (await awaits_commit)[0] == 200


async def test_conditions_that_are_not_met() -> None:
    """The answer is the story of the group."""
    async with playing() as (client, _, _):
        for query, awaited in (
            ("state=Empty&members=0", "is Empty with 0 members"),
            ("rebalances=2&lag=0", "has had 2 rebalances and has a lag of 0"),
            ("assigned=true", "has assigned partitions to each member"),
            ("assigned=true&member=a&partitions=2", "2 partitions to 'a'"),
            ("topic=t&partition=0&offset=3", "has committed offset 3 of t-0"),
        ):
            status, answer = await client.get(f"{GROUP}/until?{query}&timeout=0")
            assert status == 504
            first, *story = answer["error"].splitlines()
            assert awaited in first
            assert "was the first to join" in "".join(story)
        status, answer = await client.get("/v1/groups/h/until?timeout=0")
        assert status == 504
        assert "until group 'h' exists" in answer["error"]


IMPOSSIBLE = [
    ("topic=t", "topic, partition and offset go together"),
    ("member=a", "member and partitions go with assigned=true"),
    ("timeout=3601", "timeout must be at most 3600"),
    ("timeout=nan", "timeout must be at "),
    ("state=Happy", "state must be one of Empty, PreparingRebalance, "),
]


async def test_conditions_that_cannot_be() -> None:
    """They are refused at once."""
    async with asking() as client:
        for query, sentence in IMPOSSIBLE:
            status, answer = await client.get(f"{GROUP}/until?{query}")
            assert status == 400
            assert sentence in answer["error"]


async def test_a_client_that_goes_waits_no_more() -> None:
    """Its place is free for another one."""
    async with asking() as client:
        waiting = asyncio.create_task(client.get(f"{GROUP}/until?timeout=60"))
        await client.waits(1)
        waiting.cancel()
        await client.waits(0)


async def test_only_so_many_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is refused, and nothing else is."""
    monkeypatch.setattr(long_polls, "MOST_POLLS", 2)
    async with asking() as client:
        waiting = [
            asyncio.create_task(client.get(f"{GROUP}/until?timeout=60"))
            for _ in range(2)
        ]
        await client.waits(2)
        status, answer = await client.get(f"{GROUP}/until?timeout=60")
        assert (status, answer) == (503, {"error": "2 requests are already waiting"})
        assert (await client.get("/v1/groups"))[0] == 200
        # The server ends them when it stops.
        await client.control.stop()
        for each in waiting:
            assert await each == (503, {"error": "the broker stops"})


# -- the clock


async def test_the_clock_is_moved() -> None:
    """A manual clock moves by this time, and its timers fire."""
    async with asking(clock="manual") as client:
        _, before = await client.get("/v1/clock")
        assert before["mode"] == "manual"
        due: list[str] = []
        client.broker.clock.call_at(
            client.broker.clock.now() + 45, lambda: due.append("now")
        )
        path = "/v1/clock/advance"
        status, after = await client.post(path, {"seconds": 44.5})
        assert (status, due) == (200, [])
        status, after = await client.post(path, {"seconds": 0.5})
        assert after["now_ns"] - before["now_ns"] == 45_000_000_000
        assert due == ["now"]
        assert after["fired"] >= 1
        _, shown = await client.get("/v1/clock")
        assert shown == {"now_ns": after["now_ns"], "mode": "manual"}


@pytest.mark.parametrize("credit", [True, False])
async def test_an_advance_ends_sessions_only_if_it_is_to(*, credit: bool) -> None:
    """Members with a live connection stay by default."""
    async with playing(clock="manual") as (client, member, member_id):
        body = {"seconds": 301, "credit_heartbeats": credit}
        assert (await client.post("/v1/clock/advance", body))[0] == 200
        assert await heartbeat(member, member_id) == (0 if credit else 25)


async def test_the_clock_is_moved_within_limits() -> None:
    """Neither back nor for ever."""
    async with asking(clock="manual") as client:
        for seconds in (-1, MOST_SECONDS + 1, "45", None):
            body = {"seconds": seconds}
            sentence = await client.refusal("/v1/clock/advance", body, 400)
            assert sentence.startswith("seconds must be ")


async def test_a_change_goes_on_without_its_client() -> None:
    """Nothing is left half done when a client gives up."""
    async with asking(clock="manual") as client:
        clock = client.broker.clock
        until_s = clock.now() + 2_000
        body = {"seconds": 2_000}
        moving = asyncio.create_task(client.post("/v1/clock/advance", body))
        clock.call_at(clock.now() + 1, moving.cancel)
        # Each gives the broker a turn in which it could hear of that.
        for second in range(2, 2_000):
            clock.call_at(clock.now() + second, lambda: None)
        await asyncio.wait({moving})
        assert moving.cancelled()
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: clock.now() >= until_s)


async def test_the_clock_has_an_end() -> None:
    """Nanoseconds since the epoch are numbers of 64 bits."""
    async with asking(clock="manual") as client:
        clock = client.broker.clock
        await clock.advance(LATEST_NS / 1e9 - clock.now() - 10)
        assert (await client.post("/v1/clock/advance", {"seconds": 5}))[0] == 200
        assert "2262" in await client.refusal("/v1/clock/advance", {"seconds": 9}, 409)
