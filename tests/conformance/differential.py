"""Plays random sequences of group requests against two brokers, and compares.

    python -m tests.conformance.differential REFERENCE:PORT BROKER:PORT --seed 1

Both brokers get the same requests in lockstep; after each one their answers, and
what DescribeGroups says, have to agree within a second. A sequence that differs is
played again, to tell races from differences, shortened as long as it still differs,
and printed. Exit status 1 if anything differs. Brokers need the same settings, and
an initial rebalance delay of 0.

Not sent, as kohort answers them on purpose where Kafka does not: a second join or
sync of a member whose first one waits, a leave of a member whose sync waits. A
sequence ends where brokers are free to choose, which is when a leader is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from tests.conformance import kio_codec
from tests.conformance.connection import Call, Connection
from tests.conformance.env import Env, Target
from tests.conformance.member import meta
from tests.conformance.play import probe
from tests.conformance.symbols import render

Step = dict[str, Any]
ACTORS = ["A", "B", "C", "S", "S2", "T", "T2"]
INSTANCES = {"S": "i-S", "S2": "i-S", "T": "i-T", "T2": "i-T"}
PROTOCOLS = [["x", "y"], ["x", "y"], ["y", "x"], ["x"], ["y"], ["z"], []]
AGREE = 1.5  # seconds within which brokers have to agree


def steps(  # noqa: C901 - one line per kind of step
    rng: random.Random,
) -> list[Step]:
    """A sequence; steps name members by actor, so that any part of it can be played."""
    actors = rng.sample(ACTORS, rng.choice([2, 3, 4, 5]))
    quick = rng.random() < 0.3
    rebalance_ms = 700 if quick else 60_000
    kinds = {
        "advance": 40,
        "join": 8,
        "sync": 5,
        "heartbeat": 5,
        "leave": 7,
        "batch": 2,
        "commit": 8,
        "fetch": 2,
        "offset_delete": 3,
        "delete": 2,
        "list": 2,
        "wait": 4 if quick else 0,
    }
    chosen = rng.choices(list(kinds), list(kinds.values()), k=rng.randint(8, 40))
    out: list[Step] = []
    for kind in chosen:
        step: Step = {"do": kind, "actor": rng.choice(actors)}
        odd = rng.random() < 0.25
        which = rng.choice(["", "made-up", "old", "other"]) if odd else "own"
        if kind in ("sync", "heartbeat", "commit", "leave", "join"):
            step["id"] = which
            step["other"] = rng.choice(actors)
            step["instance"] = rng.choices(
                ["own", "none", "i-S", "i-unknown"], [12, 2, 1, 1]
            )[0]
        if kind in ("sync", "heartbeat", "commit"):
            step["generation"] = rng.choices([0, -1, 1, "none"], [12, 1, 1, 1])[0]
        if kind in ("advance", "join"):
            step["version"] = rng.choices(
                [0, 1, 3, 4, 5, 7, 8, 9], [1, 1, 3, 2, 2, 1, 2, 8]
            )[0]
            step["rebalance"] = rebalance_ms
            step["protocols"] = 0
            if kind == "join":
                step["protocols"] = rng.randrange(len(PROTOCOLS))
                step["meta"] = rng.choice(["m", "m", "n"])
                step["type"] = rng.choices(["consumer", "connect", ""], [20, 1, 1])[0]
                step["session"] = rng.choices([30_000, 25_000, 1], [12, 2, 1])[0]
        if kind == "sync":
            step["version"] = rng.randint(0, 5)
            step["protocol"] = rng.choices(["own", "other", None], [10, 1, 1])[0]
        if kind == "heartbeat":
            step["version"] = rng.randint(0, 4)
        if kind == "commit":
            step["version"] = rng.randint(2, 9)
            step["partitions"] = rng.sample([0, 1, 9], rng.randint(1, 2))
        if kind == "leave":
            step["version"] = rng.randint(0, 5)
        if kind == "batch":
            step["version"] = rng.randint(3, 5)
            step["members"] = [
                (rng.choice(actors), rng.choice(["own", "instance", "made-up"]))
                for _ in range(rng.randint(1, 3))
            ]
        if kind == "list":
            step["version"] = rng.randint(0, 5)
        out.append(step)
    return out


@dataclass
class Actor:
    """What a broker told one process."""

    name: str
    member_id: str = ""
    old_id: str = ""
    generation: int = -1
    protocol: str = "x"
    leads: bool = False
    synced: bool = False
    protocols: list[dict[str, Any]] = field(default_factory=list)
    joining: Call | None = None
    syncing: Call | None = None
    brought: str = ""
    """The member id of the join or sync that waits."""

    @property
    def instance(self) -> str | None:
        """The group.instance.id that it is configured with."""
        return INSTANCES.get(self.name)


class Side:
    """One of the two brokers, and all processes as it knows them."""

    def __init__(self, target: Target) -> None:
        self.env = Env(target)
        self.group = self.env.group()
        self.actors = {name: Actor(name) for name in ACTORS}
        self.connections: dict[str, list[Connection]] = {}
        self.busy: dict[Connection, Call] = {}

    async def start(self) -> None:
        """Makes the topics that are committed for."""
        self.topics = [await self.env.topic("t", 2), await self.env.topic("u", 2)]

    async def send(self, who: str, api: str, version: int, **fields: Any) -> Call:
        """Sends on a connection of `who` on which nothing waits."""
        pool = self.connections.setdefault(who, [])
        for connection in pool:
            if connection not in self.busy or self.busy[connection].done:
                break
        else:
            connection = await self.env.open(who)
            pool.append(connection)
        known = kio_codec.request_fields(api, version)
        fields = {k: v for k, v in fields.items() if k in known}
        call = self.busy[connection] = await connection.send(api, version, fields)
        return call

    # -- steps

    def has(self, actor: Actor, step: Step) -> str:
        """The member id that a step brings."""
        which = step.get("id", "own")
        if which == "own":
            return actor.member_id
        if which == "old":
            return actor.old_id
        if which == "other":
            return self.actors[step["other"]].member_id
        return str(which)

    def waits(self, member_id: str) -> tuple[bool, bool]:
        """Whether a join, or a sync, of a member id waits."""
        holders = [
            a for a in self.actors.values() if member_id in (a.member_id, a.brought)
        ]
        return (
            any(a.joining and not a.joining.done for a in holders),
            any(a.syncing and not a.syncing.done for a in holders),
        )

    def sync_waits_of(self, instance: str) -> bool:
        """Whether a sync of a static member waits."""
        return any(
            a.instance == instance and a.syncing and not a.syncing.done
            for a in self.actors.values()
        )

    async def play(self, step: Step) -> Call | None:
        """Sends what a step says; None where it is left out."""
        actor = self.actors[step["actor"]]
        call: Call | None = await getattr(self, f"_{step['do']}")(actor, step)
        return call

    async def _wait(self, _: Actor, __: Step) -> None:
        return None

    async def _advance(self, actor: Actor, step: Step) -> Call | None:
        if actor.joining or actor.syncing:
            return None
        if actor.generation < 0:
            return await self._join(actor, step)
        if not actor.synced:
            return await self._sync(actor, {"version": 5})
        return await self._heartbeat(actor, {"version": 4})

    def instance_of(self, actor: Actor, step: Step) -> str | None:
        """The instance id that a step brings."""
        which = step.get("instance", "own")
        if which == "own":
            return actor.instance
        return None if which == "none" else str(which)

    def brings(self, actor: Actor, step: Step) -> dict[str, Any]:
        """The fields that name a member, in all APIs."""
        generation = self.generation(actor, step)
        return {
            "group_id": self.group,
            "member_id": self.has(actor, step),
            "generation_id": generation,
            "generation_id_or_member_epoch": generation,
            "group_instance_id": self.instance_of(actor, step),
        }

    async def _join(self, actor: Actor, step: Step) -> Call | None:
        version = step["version"]
        fields = self.brings(actor, step)
        member_id = fields["member_id"]
        if fields["group_instance_id"] and version < 5:
            version = 9
        if actor.joining or actor.syncing or any(self.waits(member_id or "-")):
            return None
        data = meta(step.get("meta", "m"), self.topics[0])
        names = PROTOCOLS[step["protocols"]]
        fields |= {
            "session_timeout_ms": step.get("session", 30_000),
            "rebalance_timeout_ms": step["rebalance"],
            "protocol_type": step.get("type", "consumer"),
            "protocols": [{"name": n, "metadata": data} for n in names],
        }
        call = await self.send(actor.name, "JoinGroup", version, **fields)
        actor.joining, actor.brought = call, member_id
        return call

    async def _sync(self, actor: Actor, step: Step) -> Call | None:
        fields = self.brings(actor, step)
        member_id = fields["member_id"]
        if actor.joining or actor.syncing or any(self.waits(member_id or "-")):
            return None
        protocol = step.get("protocol", "own")
        fields |= {
            "protocol_type": "consumer",
            "protocol_name": actor.protocol if protocol == "own" else protocol,
            "assignments": [
                {"member_id": a.member_id, "assignment": f"for {a.name}".encode()}
                for a in self.actors.values()
                if a.member_id and actor.leads
            ],
        }
        call = await self.send(actor.name, "SyncGroup", step["version"], **fields)
        actor.syncing, actor.brought = call, member_id
        return call

    def generation(self, actor: Actor, step: Step) -> int:
        """The generation that a step brings."""
        offset = step.get("generation", 0)
        return -1 if offset == "none" else actor.generation + int(offset)

    async def _heartbeat(self, actor: Actor, step: Step) -> Call:
        fields = self.brings(actor, step)
        return await self.send(actor.name, "Heartbeat", step["version"], **fields)

    async def _commit(self, actor: Actor, step: Step) -> Call:
        partitions = [
            {"partition_index": p, "committed_offset": 5, "committed_metadata": ""}
            for p in step["partitions"]
        ]
        fields = self.brings(actor, step) | {
            "retention_time_ms": -1,
            "topics": [{"name": t, "partitions": partitions} for t in self.topics],
        }
        return await self.send(actor.name, "OffsetCommit", step["version"], **fields)

    async def _leave(self, actor: Actor, step: Step) -> Call | None:
        fields = self.brings(actor, step)
        names = ("member_id", "group_instance_id")
        member_id, instance = (fields[name] for name in names)
        if self.waits(member_id or "-")[1] or self.sync_waits_of(instance or "-"):
            return None
        # Before v3 the member is named beside the group.
        fields["members"] = [{name: fields[name] for name in names}]
        return await self.send(actor.name, "LeaveGroup", step["version"], **fields)

    async def _batch(self, actor: Actor, step: Step) -> Call | None:
        members = []
        for name, how in step["members"]:
            other = self.actors[name]
            member_id = {"own": other.member_id, "instance": ""}.get(how, how)
            instance = None if how == "own" else other.instance
            if self.waits(other.member_id or "-")[1]:
                return None
            if self.sync_waits_of(instance or "-"):
                return None
            members.append({"member_id": member_id, "group_instance_id": instance})
        fields = {"group_id": self.group, "members": members}
        return await self.send(actor.name, "LeaveGroup", step["version"], **fields)

    async def _fetch(self, actor: Actor, _: Step) -> Call:
        wanted = {"group_id": self.group, "topics": None}
        return await self.send(actor.name, "OffsetFetch", 9, groups=[wanted])

    async def _offset_delete(self, actor: Actor, _: Step) -> Call:
        partitions = [{"partition_index": p} for p in (0, 1)]
        topics = [{"name": t, "partitions": partitions} for t in self.topics]
        fields = {"group_id": self.group, "topics": topics}
        return await self.send(actor.name, "OffsetDelete", 0, **fields)

    async def _delete(self, actor: Actor, _: Step) -> Call:
        return await self.send(actor.name, "DeleteGroups", 2, groups_names=[self.group])

    async def _list(self, actor: Actor, step: Step) -> Call:
        return await self.send(actor.name, "ListGroups", step["version"])

    # -- answers

    def absorb(  # noqa: C901 - one line per kind of answer
        self, who: str, call: Call
    ) -> None:
        """What the process learns of an answer."""
        actor = self.actors[who]
        body = call.future.result().body
        is_join, is_sync = call is actor.joining, call is actor.syncing
        if is_join:
            actor.joining = None
        if is_sync:
            actor.syncing = None
        if is_join or is_sync:
            actor.brought = ""
        if body is None:
            return
        code = int(body.get("error_code") or 0)
        if is_join:
            self.env.symbols.name_member(body["member_id"] or "", who)
        if is_join and code in (0, 79):
            if body["member_id"] != actor.member_id:
                actor.old_id, actor.member_id = actor.member_id, body["member_id"]
            actor.synced = False
            actor.generation = body["generation_id"] if code == 0 else -1
            actor.protocol = body["protocol_name"] or "x"
            actor.leads = code == 0 and body["leader"] == body["member_id"]
        elif is_sync and code == 0:
            actor.synced = True
        elif call.api != "OffsetCommit" and code in (25, 82):
            actor.old_id, actor.member_id = actor.member_id or actor.old_id, ""
            actor.generation = -1
        elif code in (22, 27):
            actor.generation = -1

    def shown(self, call: Call) -> Any:
        """An answer, comparable between brokers."""
        outcome = call.future.result()
        if outcome.body is None:
            return f"{outcome.status} {outcome.detail}"
        body = dict(outcome.body)
        if call.api == "ListGroups":
            own = [g for g in body["groups"] if g["group_id"] == self.group]
            body["groups"] = own
        if call.api == "JoinGroup" and not self.env.symbols.knows(body["member_id"]):
            body["member_id"] = ""
        return render(body, self.env.symbols, response=True)

    async def described(self) -> Any:
        """What DescribeGroups says, without member ids."""
        call = await self.send("watcher", "DescribeGroups", 6, groups=[self.group])
        body = (await call.wait())["groups"][0]
        members = [
            {k: v for k, v in m.items() if k != "member_id"} for m in body["members"]
        ]
        shown = {**body, "members": members}
        return render(shown, self.env.symbols, response=True)


FREE = ("leader", "members", "skip_assignment")
"""What brokers may choose when a leader is gone."""


async def compare(targets: list[Target], played: list[Step]) -> list[str]:
    """Plays a sequence on both; how they differ, or nothing."""
    sides = [Side(t) for t in targets]
    waiting: list[tuple[str, str, list[Call]]] = []
    try:
        for side in sides:
            await side.start()
        for number, step in enumerate(played):
            calls = [await side.play(step) for side in sides]
            if (calls[0] is None) != (calls[1] is None):
                return [f"step {number}: sent to one only {step}"]
            if calls[0] is not None:
                label = (
                    f"step {number} {step['actor']} {calls[0].api}/{calls[0].version}"
                )
                both = [c for c in calls if c is not None]
                waiting.append((label, step["actor"], both))
            if step["do"] == "wait":
                await asyncio.sleep(1.0)
            problem = await _agree(sides, waiting)
            if problem is not None:
                return [f"after step {number} {json.dumps(step)}", *problem]
    except _FreeError:
        return []
    finally:
        for side in sides:
            await side.env.close()
    return []


class _FreeError(Exception):
    """Brokers chose different leaders: what follows cannot be compared."""


async def _agree(
    sides: list[Side], waiting: list[tuple[str, str, list[Call]]]
) -> list[str] | None:
    deadline = time.monotonic() + AGREE
    await asyncio.sleep(0.01)
    while True:
        states = [await side.described() for side in sides]
        uneven = [w for w in waiting if w[2][0].done != w[2][1].done]
        if not uneven and states[0] == states[1]:
            break
        if time.monotonic() > deadline:
            names = [f"{w[0]}: answered {[c.done for c in w[2]]}" for w in uneven]
            return [*names, *(json.dumps(s) for s in states)]
        await asyncio.sleep(0.03)
    done = [w for w in waiting if w[2][0].done]
    for entry in done:
        waiting.remove(entry)
        for side, call in zip(sides, entry[2], strict=True):
            side.absorb(entry[1], call)
    for label, _, calls in done:
        shown = [s.shown(c) for s, c in zip(sides, calls, strict=True)]
        if shown[0] == shown[1]:
            continue
        if calls[0].api == "JoinGroup" and all(isinstance(s, dict) for s in shown):
            bare = [{k: v for k, v in s.items() if k not in FREE} for s in shown]
            if bare[0] == bare[1] and shown[0]["leader"] != shown[1]["leader"]:
                raise _FreeError
        return [label, *(json.dumps(s) for s in shown)]
    return None


async def shorten(
    targets: list[Target], played: list[Step]
) -> tuple[list[Step], list[str]]:
    """Leaves out steps as long as the brokers still differ."""
    problem = await compare(targets, played)
    position = len(played) - 1
    while position >= 0:
        fewer = played[:position] + played[position + 1 :]
        found = await compare(targets, fewer)
        if found:
            played, problem = fewer, found
        position -= 1
    return played, problem


def say(line: str) -> None:
    """Tells the user, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", metavar="REFERENCE:PORT")
    parser.add_argument("broker", metavar="BROKER:PORT")
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first sequence")
    parser.add_argument("--jobs", type=int, default=4, help="sequences at a time")
    arguments = parser.parse_args()
    targets = []
    for address in (arguments.reference, arguments.broker):
        host, _, port = address.rpartition(":")
        targets.append(await probe(host, int(port)))
    slots = asyncio.Semaphore(arguments.jobs)
    differing: list[tuple[int, list[Step]]] = []
    total = 0

    async def one(seed: int) -> None:
        nonlocal total
        played = steps(random.Random(seed))
        async with slots:
            if await compare(targets, played) and await compare(targets, played):
                differing.append((seed, played))
        total += len(played)

    first = arguments.seed
    await asyncio.gather(*(one(s) for s in range(first, first + arguments.sequences)))
    for seed, played in differing:
        fewest, problem = await shorten(targets, played)
        if not problem:
            say(f"seed {seed}: a race, not a difference")
            continue
        say(f"seed {seed} differs, {len(fewest)} steps:")
        for step in fewest:
            say(f"    {json.dumps(step)}")
        say("\n".join(f"  {line}" for line in problem))
    say(f"{arguments.sequences} sequences, {total} steps, {len(differing)} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
