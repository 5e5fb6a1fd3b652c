"""A broker's group, and its members' processes, from the view of group steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.conformance.connection import Call
from tests.conformance.differential.group_steps import ACTORS, INSTANCES, PROTOCOLS
from tests.conformance.differential.request import Request
from tests.conformance.differential.sequence import Step
from tests.conformance.differential.side import Side
from tests.conformance.env import Env, Stage
from tests.conformance.member import meta

TOPICS = ["differential-t", "differential-u"]
"""Topics of commits; every sequence has a separate group, so they can share the topics.
"""
MADE_UP = "made-up"


@dataclass
class Actor:
    """One process's state, from a broker's responses."""

    name: str
    member_id: str = ""
    old_id: str = ""
    generation: int = -1
    protocol: str = "x"
    leads: bool = False
    synced: bool = False
    joining: Request | None = None
    syncing: Request | None = None

    @property
    def instance(self) -> str | None:
        """Its configured group.instance.id."""
        return INSTANCES.get(self.name)

    @property
    def waits(self) -> bool:
        """True if a join or a sync of it has no response yet."""
        return self.joining is not None or self.syncing is not None

    def forget(self) -> None:
        """Forgets its member id."""
        self.old_id, self.member_id = self.member_id or self.old_id, ""
        self.generation = -1


class GroupSide(Side):
    """See `Side`.

    Attributes:
        group: the group.
        actors: by name.
        topics: the names of topics of commits, by those in steps.
    """

    def __init__(self, target: Stage) -> None:
        super().__init__(target)
        self.group = self.env.group()
        self.env.symbols.literal(MADE_UP)
        self.actors = {name: Actor(name) for name in ACTORS}
        self.topics = {name: name for name in TOPICS}

    # -- steps

    def requests(self, step: Step) -> list[Request]:
        """The request of a step; none if a process waits for its previous one."""
        actor = self.actors[step["actor"]]
        made: Request | None = getattr(self, f"_{step['do']}")(actor, step)
        return [made] if made else []

    def plan(self, request: Request) -> None:
        """Remembers joins and syncs, which may wait."""
        actor = self.actors[request.who]
        if request.api == "JoinGroup":
            actor.joining = request
        elif request.api == "SyncGroup":
            actor.syncing = request

    def restart(self, step: Step) -> None:
        """Restarts the process, or only loses its connections."""
        actor = self.actors[step["actor"]]
        actor.joining = actor.syncing = None
        if step["forgets"]:
            actor.forget()

    def _has(self, actor: Actor, step: Step) -> str:
        """The member id in a step's request."""
        match step.get("id", "own"):
            case "own":
                return actor.member_id
            case "old":
                return actor.old_id
            case "other":
                return self.actors[step["other"]].member_id
            case made_up:
                return str(made_up)

    def _generation(self, actor: Actor, step: Step) -> int:
        offset = step.get("generation", 0)
        return -1 if offset == "none" else actor.generation + int(offset)

    def _metadata(self, actor: Actor, step: Step) -> bytes:
        """The metadata of each protocol of a JoinGroup."""
        return meta(step.get("meta", "m"), TOPICS[0])

    def _assignment(self, actor: Actor, step: Step) -> bytes:
        """The assignment that a leader gives to an actor."""
        return f"for {actor.name}".encode()

    def _brings(self, actor: Actor, step: Step) -> dict[str, Any]:
        """The fields that name a member, in all APIs."""
        instance = step.get("instance", "own")
        if instance == "own":
            instance = actor.instance
        elif instance == "none":
            instance = None
        generation = self._generation(actor, step)
        return {
            "group_id": self.group,
            "member_id": self._has(actor, step),
            "generation_id": generation,
            "generation_id_or_member_epoch": generation,
            "group_instance_id": instance,
        }

    def _advance(self, actor: Actor, step: Step) -> Request | None:
        if actor.waits:
            return None
        if actor.generation < 0:
            return self._join(actor, step)
        if not actor.synced:
            return self._sync(actor, {"version": 5})
        return self._heartbeat(actor, {"version": 4})

    def _join(self, actor: Actor, step: Step) -> Request:
        version = step["version"]
        fields = self._brings(actor, step)
        if fields["group_instance_id"] and version < 5:
            version = 9
        data = self._metadata(actor, step)
        fields |= {
            "session_timeout_ms": step["session"],
            "rebalance_timeout_ms": step["rebalance"],
            "protocol_type": step.get("type", "consumer"),
            "protocols": [
                {"name": n, "metadata": data} for n in PROTOCOLS[step["protocols"]]
            ],
        }
        told = fields | {
            "protocols": {
                n: step.get("meta", "m") for n in PROTOCOLS[step["protocols"]]
            }
        }
        return Request(actor.name, "JoinGroup", version, fields, told, waits=True)

    def _sync(self, actor: Actor, step: Step) -> Request:
        fields = self._brings(actor, step)
        protocol = step.get("protocol", "own")
        fields |= {
            "protocol_type": "consumer",
            "protocol_name": actor.protocol if protocol == "own" else protocol,
            "assignments": [
                {"member_id": a.member_id, "assignment": self._assignment(a, step)}
                for a in self.actors.values()
                if a.member_id and actor.leads
            ],
        }
        return Request(actor.name, "SyncGroup", step["version"], fields, waits=True)

    def _heartbeat(self, actor: Actor, step: Step) -> Request:
        fields = self._brings(actor, step)
        return Request(actor.name, "Heartbeat", step["version"], fields)

    def _commit(self, actor: Actor, step: Step) -> Request:
        size = step.get("metadata", 0)
        partitions = [
            {
                "partition_index": p,
                "committed_offset": 5,
                "committed_metadata": "m" * (size if p == 0 else 0),
            }
            for p in step["partitions"]
        ]
        fields = self._brings(actor, step) | {
            "retention_time_ms": -1,
            "topics": [
                {"name": t, "partitions": partitions} for t in self.topics.values()
            ],
        }
        return Request(actor.name, "OffsetCommit", step["version"], fields)

    def _leave(self, actor: Actor, step: Step) -> Request:
        fields = self._brings(actor, step)
        names = ("member_id", "group_instance_id")
        # Before v3 the member is a field beside the group.
        fields["members"] = [{name: fields[name] for name in names}]
        return Request(actor.name, "LeaveGroup", step["version"], fields)

    def _batch(self, actor: Actor, step: Step) -> Request:
        members = []
        for name, how in step["members"]:
            other = self.actors[name]
            named = {"own": other.member_id, "instance": ""}
            member_id = named.get(how, MADE_UP)
            instance = None if how == "own" else other.instance
            members.append({"member_id": member_id, "group_instance_id": instance})
        fields = {"group_id": self.group, "members": members}
        return Request(actor.name, "LeaveGroup", step["version"], fields)

    def _fetch(self, actor: Actor, _: Step) -> Request:
        groups = [{"group_id": self.group, "topics": None}]
        return Request(actor.name, "OffsetFetch", 9, {"groups": groups})

    def _offset_delete(self, actor: Actor, _: Step) -> Request:
        partitions = [{"partition_index": p} for p in (0, 1)]
        topics = [{"name": t, "partitions": partitions} for t in self.topics.values()]
        fields = {"group_id": self.group, "topics": topics}
        return Request(actor.name, "OffsetDelete", 0, fields)

    def _delete(self, actor: Actor, _: Step) -> Request:
        return Request(actor.name, "DeleteGroups", 2, {"groups_names": [self.group]})

    def _list(self, actor: Actor, step: Step) -> Request:
        filters = {
            "states_filter": step.get("states", []),
            "types_filter": step.get("types", []),
        }
        return Request(actor.name, "ListGroups", step["version"], filters)

    # -- responses

    def answered(self, request: Request, body: dict[str, Any] | None) -> None:
        """Updates the process from a response, unless it has restarted since."""
        actor = self.actors[request.who]
        is_join, is_sync = request is actor.joining, request is actor.syncing
        if is_join:
            actor.joining = None
        if is_sync:
            actor.syncing = None
        if body is None:
            return
        code = int(body.get("error_code") or 0)
        if request.api == "JoinGroup":
            self.env.symbols.name_member(body["member_id"] or "", request.who)
        if is_join and code in (0, 79):
            self._join_answered(actor, code, body)
        elif is_sync and code == 0:
            actor.synced = True
        elif request.api in ("JoinGroup", "SyncGroup") and not (is_join or is_sync):
            pass
        elif request.api != "OffsetCommit" and code in (25, 82):
            actor.forget()
        elif code in (22, 27):
            actor.generation = -1

    def _join_answered(self, actor: Actor, code: int, body: dict[str, Any]) -> None:
        if body["member_id"] != actor.member_id:
            actor.old_id, actor.member_id = actor.member_id, body["member_id"]
        actor.synced = False
        actor.generation = body["generation_id"] if code == 0 else -1
        actor.protocol = body["protocol_name"] or "x"
        actor.leads = code == 0 and body["leader"] == body["member_id"]

    def told(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        """The response without other runs' groups, and the ids of no member."""
        if request.api == "ListGroups":
            own = [g for g in body["groups"] if g["group_id"] == self.group]
            body["groups"] = own
        known = self.env.symbols.knows
        if request.api == "JoinGroup" and not known(body["member_id"] or ""):
            body["member_id"] = ""
        return body

    async def state(self) -> Any:
        """The result of DescribeGroups, without member ids."""
        wanted = {"groups": [self.group]}
        look = Request("watcher", "DescribeGroups", 6, wanted)
        (found,) = (await self.ask(look))[0]["groups"]
        members = [
            {k: v for k, v in m.items() if k != "member_id"} for m in found["members"]
        ]
        return self.rendered(found | {"members": members})

    async def keep_alive(self, step: Step) -> None:
        """Sends a heartbeat for each actor that a wait keeps alive."""
        beats = [
            self._heartbeat(actor, {"version": 4})
            for actor in map(self.actors.__getitem__, step["alive"])
            if actor.member_id
        ]
        await self.ask(*beats)


async def make_topics(target: Stage) -> None:
    """Creates the topics of all sequences."""
    env = Env(target)
    try:
        connection = await env.open("topics")
        topics = [
            {"name": name, "num_partitions": 2, "replication_factor": 1}
            for name in TOPICS
        ]
        fields = {"topics": topics, "timeout_ms": 10_000}
        call: Call = await connection.send("CreateTopics", 5, fields)
        await call.wait()
        for name in TOPICS:
            while int((await env.describe_topic(name))["error_code"]):
                pass
    finally:
        await env.close()
