"""A broker's consumer group, and its members' processes, from the view of steps.

Kafka does some work after the answer to a request. What a heartbeat shows depends on
it, so `state`, after each step, first waits until it is done:

* The group coordinator hears of changed topics later than Metadata shows them. All
  groups are in one partition of `__consumer_offsets`, with one image of the topics. So
  when the member of another group (`Probe`) has all partitions of the topics, and no
  others, every group has them.
* Another thread matches patterns. It is one thread, and takes them in order; so when
  another group has the topics of its new pattern, the patterns before are matched, too.
* EndTxn is answered before the offsets of the transaction are committed. The state
  CompleteCommit or CompleteAbort follows that.
* Assignors run in the heartbeats themselves, as
  `group.consumer.assignment.interval.ms=0` and
  `group.consumer.assignor.offload.enable=false`.

Otherwise, the answers to heartbeats depend on nothing but the requests before and the
order of ids: see `ConsumerSide.order`. Members that a wait keeps alive send heartbeats
until nothing changes, in any number; waits are only in sequences whose assignor is
`range`, which divides the partitions regardless of how they were divided before.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.consumer_protocol import (
    consumer_assignment,
    consumer_subscription,
    read_assignment,
)
from tests.conformance.differential.consumer_steps import (
    LEAST,
    MOST,
    RANGE,
    TOPICS,
    UNKNOWN,
    pattern_of,
)
from tests.conformance.differential.group_side import MADE_UP, Actor, GroupSide
from tests.conformance.differential.group_side import TOPICS as COMMON_TOPICS
from tests.conformance.differential.offset_transactions import OffsetTransactions
from tests.conformance.differential.probe import (
    LEAVES,
    REBALANCE_MS,
    Partitions,
    Probe,
    check,
    partitions_of,
    rows_of,
)
from tests.conformance.differential.request import Request
from tests.conformance.differential.sequence import Step
from tests.conformance.env import Stage
from tests.patience import PATIENCE_S

GOES_AWAY = -2
UNKNOWN_TOPIC_ID = uuid.UUID(int=7)
_LOST = {25, 82, 110}
"""UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID and FENCED_MEMBER_EPOCH."""
_ASSIGNMENTS = {"assignment", "member_assignment"}


@dataclass
class Process(Actor):
    """A process that may use either protocol.

    Attributes:
        is_consumer: whether its last join was of the consumer protocol.
        ids: the number of member ids that it has made.
        previous: its epoch before the present one.
        assigned: its partitions, by the last response that had them.
        reported: the partitions that it last said it owns.
    """

    is_consumer: bool = False
    ids: int = 0
    previous: int = -1
    assigned: Partitions = field(default_factory=dict)
    reported: Partitions = field(default_factory=dict)

    def forget(self) -> None:
        """Forgets its member id."""
        super().forget()
        self.abandon()

    def abandon(self) -> None:
        """Gives up its partitions; its next heartbeat joins."""
        self.generation = -1
        self.assigned, self.reported = {}, {}


class ConsumerSide(GroupSide):
    """See `Side`."""

    actors: dict[str, Process]  # type: ignore[assignment]

    def __init__(self, target: Stage) -> None:
        super().__init__(target)
        self.actors = {name: Process(name) for name in self.actors}
        self.topics = {name: self.env.fresh_topic_name(name) for name in TOPICS}
        self._run = self.topics["x"].rpartition("-")[0]
        self.env.symbols.name(self._run, "<run>")
        self.env.symbols.name_uuid(UNKNOWN_TOPIC_ID, "<unknown topic id>")
        self._salt = ""
        self._is_range = False
        # Topics by their names in steps.
        self._partitions: dict[str, int] = {}
        self._ids: dict[str, uuid.UUID] = {}
        self._made = 0
        self._is_known = True
        self._probe = Probe(self.ask, f"{self.group}-probe")
        self._probes = 0
        self._has_patterns = False
        self._transactions = OffsetTransactions(self.env, self.ask)
        self._sent: list[Request] = []
        self._members: list[str] = []
        # Of member ids, by the first heartbeat that had one.
        self._instances: dict[str, str] = {}

    async def end(self) -> None:
        """Deletes the topics, and closes all connections."""
        names = [self.topics[name] for name in self._partitions]
        fields = {"topic_names": names, "timeout_ms": 5000}
        await self.ask(Request("watcher", "DeleteTopics", 3, fields))
        await self._probe.leave()
        await super().end()

    # -- topics

    def requests(self, step: Step) -> list[Request]:
        """The requests of a step; none if a process waits for its previous one."""
        begins = step["do"] == "begin"
        made = [*self._begin(step)] if begins else super().requests(step)
        self._sent += [each for each in made if not each.waits]
        return made

    def _begin(self, step: Step) -> Iterable[Request]:
        self._salt, self._is_range = step["salt"], step["range"]
        for topic, partitions in step["topics"].items():
            made = {"topic": topic, "partitions": partitions}
            yield self._create(self.actors[step["actor"]], made)
        if step["session"] is not None:
            name = "consumer.session.timeout.ms"
            config = {
                "name": name,
                "config_operation": 0,
                "value": str(step["session"]),
            }
            resource = {
                "resource_type": 32,
                "resource_name": self.group,
                "configs": [config],
            }
            fields = {"resources": [resource], "validate_only": False}
            yield Request(step["actor"], "IncrementalAlterConfigs", 1, fields, {})

    def _create(self, actor: Actor, step: Step) -> Request:
        name = step["topic"]
        if name not in self._partitions:
            self._partitions[name] = step["partitions"]
            self._is_known = False
        topic = {
            "name": self.topics[name],
            "num_partitions": step["partitions"],
            "replication_factor": 1,
        }
        fields = {"topics": [topic], "timeout_ms": 10_000}
        return Request(actor.name, "CreateTopics", 7, fields)

    def _grow(self, actor: Actor, step: Step) -> Request:
        name = step["topic"]
        count = self._partitions.get(name, 1) + step["more"]
        if name in self._partitions and step["more"]:
            self._partitions[name] = count
            self._is_known = False
        topic = {"name": self.topics[name], "count": count, "assignments": None}
        fields = {"topics": [topic], "timeout_ms": 10_000, "validate_only": False}
        return Request(actor.name, "CreatePartitions", 3, fields)

    def _drop(self, actor: Actor, step: Step) -> Request:
        if self._partitions.pop(step["topic"], None):
            self._is_known = False
        names = [self.topics[step["topic"]]]
        fields = {"topic_names": names, "timeout_ms": 5000}
        return Request(actor.name, "DeleteTopics", 5, fields)

    def _named(self, names: list[str]) -> list[str]:
        return [self.topics.get(name, f"{self._run}-{name}") for name in names]

    def _topic(self, name: str) -> dict[str, Any]:
        """A topic by its name, and by its id in versions that have one."""
        topic_id = self._ids.get(name, UNKNOWN_TOPIC_ID)
        (raw,) = self._named([name])
        return {"name": raw, "topic_id": topic_id}

    # -- heartbeats

    def _go_on(self, actor: Process, step: Step) -> Request | None:
        """The next heartbeat of a process that does as it should."""
        if actor.waits:
            return None
        joins = actor.generation < 0
        told = dict(step)
        if joins:
            told |= {"joins": True, "owned": "no"}
        elif not step["full"]:
            for name in ("names", "regex", "assignor", "rebalance"):
                told.pop(name)
        return self._beat(actor, told)

    def _beat(self, actor: Process, step: Step) -> Request:
        """A heartbeat; fields that the step lacks are those that have not changed."""
        own_id = step.get("id", "own") == "own"
        is_out = own_id and actor.generation < 0 and not step.get("generation")
        joins = step.get("joins", False) or is_out
        if own_id and not actor.member_id:
            actor.ids += 1
            # A `.` comes after the `-` of the ids that brokers make.
            actor.member_id = f"{actor.name}.{self._salt}{actor.ids}"
            self.env.symbols.literal(actor.member_id)
        named = self._brings(actor, step)
        regex = step.get("regex")
        if regex is not None:
            self._has_patterns |= bool(regex)
            regex = pattern_of(regex, self.topics, self._run)
        names = step.get("names")
        owned = self._owned(actor, step)
        rebalance = step.get("rebalance", -1)
        if joins and rebalance == -1:
            rebalance = REBALANCE_MS
        if owned is not None and own_id:
            actor.reported = owned
        is_full = {"version": 1} | step
        version = is_full["version"] if named["member_id"] or not self._is_range else 1
        fields = {
            "group_id": named["group_id"],
            "member_id": named["member_id"],
            "member_epoch": 0 if joins else named["generation_id"],
            "instance_id": named["group_instance_id"],
            "rack_id": step.get("rack"),
            "rebalance_timeout_ms": rebalance,
            "subscribed_topic_names": None if names is None else self._named(names),
            "subscribed_topic_regex": regex,
            "server_assignor": step.get("assignor"),
            "topic_partitions": None if owned is None else rows_of(owned),
        }
        if joins:
            fields["topic_partitions"] = fields["topic_partitions"] and []
        if joins and names is None:
            fields["subscribed_topic_names"] = self._named(["x"])
        if joins and fields["instance_id"] is not None:
            # Kafka never forgets the instance id that a member has had before.
            fields["instance_id"] = self._instances.setdefault(
                fields["member_id"], fields["instance_id"]
            )
        if joins and self._is_range:
            fields["server_assignor"] = step.get("assignor") or RANGE
        return Request(actor.name, "ConsumerGroupHeartbeat", version, fields)

    def _quit(self, actor: Process, step: Step) -> Request:
        """A heartbeat of a member that leaves."""
        named = self._brings(actor, step)
        fields = {
            "group_id": named["group_id"],
            "member_id": named["member_id"],
            "member_epoch": GOES_AWAY if step["away"] else LEAVES,
            "instance_id": named["group_instance_id"],
            "rebalance_timeout_ms": -1,
            "subscribed_topic_names": None,
            "topic_partitions": None,
        }
        return Request(actor.name, "ConsumerGroupHeartbeat", step["version"], fields)

    def _owned(self, actor: Process, step: Step) -> Partitions | None:
        match step.get("owned"):
            case "assigned":
                return actor.assigned
            case "before":
                return actor.reported
            case "some":
                return {topic: each[:1] for topic, each in actor.assigned.items()}
            case "more":
                more = {each: [0, 1] for each in [*self._ids.values()][:1]}
                return actor.assigned | more
            case "no":
                return {}
        return None

    def _generation(self, actor: Actor, step: Step) -> int:
        assert isinstance(actor, Process)
        match step.get("generation"):
            case "previous":
                known = actor.previous > 0
                return actor.previous if known else actor.generation - 1
            case "least":
                return LEAST
            case "most":
                return MOST
        return super()._generation(actor, step)

    # -- classic members

    def _metadata(self, actor: Actor, step: Step) -> bytes:
        assert isinstance(actor, Process)
        form = step["form"]
        if isinstance(form, str):
            return {"": b"", "short": b"\0"}[form]
        names = {topic_id: self.topics[name] for name, topic_id in self._ids.items()}
        owned = {
            names[topic_id]: partitions
            for topic_id, partitions in actor.assigned.items()
            if topic_id in names and form
        }
        return consumer_subscription(self._named(step["topics"]), form, owned=owned)

    def _assignment(self, actor: Actor, step: Step) -> bytes:
        """Divides all partitions among the members; or less well."""
        members = sorted(a.name for a in self.actors.values() if a.member_id)
        number = members.index(actor.name)
        plan = step.get("plan", "even")
        if plan == "bad":
            return b"\0"
        if plan == "twice":
            number = 0
        shares = {
            self.topics[name]: [*range(number, count, len(members))]
            for name, count in self._partitions.items()
        }
        if plan == "unknown":
            shares[f"{self._run}-{UNKNOWN}"] = [0]
        found = consumer_assignment({t: p for t, p in shares.items() if p})
        return found[:-4] + b"\0\0\0\1u" if plan == "user data" else found

    # -- offsets, and requests of admins

    def _consumer_commit(self, actor: Actor, step: Step) -> Request:
        request = self._commit(actor, step)
        partitions = request.fields["topics"][0]["partitions"]
        topics = [
            self._topic(name) | {"partitions": partitions}
            for name in dict.fromkeys(step["topics"])
        ]
        request.fields["topics"] = topics
        return request

    def _transact(self, actor: Actor, step: Step) -> Request:
        """Offsets in a transaction; the first time the actor gets a producer id."""
        offsets = self._consumer_commit(actor, step).fields
        return self._transactions.next(actor.name, step["version"], offsets)

    def _end(self, actor: Actor, step: Step) -> Request | None:
        return self._transactions.end(actor.name, is_commit=step["commits"])

    def _consumer_fetch(self, actor: Actor, step: Step) -> Request:
        named = self._brings(actor, step)
        topics = None
        if step["topics"] is not None:
            topics = [
                self._topic(name) | {"partition_indexes": step["partitions"]}
                for name in dict.fromkeys(step["topics"])
            ]
        member = {"member_id": None, "member_epoch": -1}
        if not step["anonymous"]:
            member = {
                "member_id": named["member_id"],
                "member_epoch": named["generation_id"],
            }
        group = {"group_id": self.group, "topics": topics}
        fields = group | {"groups": [group | member], "require_stable": step["stable"]}
        if step["version"] == 1 and topics is None:
            fields["topics"] = []
        return Request(actor.name, "OffsetFetch", step["version"], fields)

    def _describe(self, actor: Actor, step: Step) -> Request:
        own = {"own": self.group}
        fields = {
            "group_ids": [own.get(each, each) for each in step["groups"]],
            "include_authorized_operations": step["authorized"],
        }
        return Request(actor.name, "ConsumerGroupDescribe", step["version"], fields)

    # -- responses

    def answered(self, request: Request, body: dict[str, Any] | None) -> None:
        """Updates the process from a response."""
        if request.api == "ConsumerGroupHeartbeat":
            if body is not None:
                self._heard(request, body)
            return
        if request.api in ("InitProducerId", "EndTxn") and body is not None:
            self._transactions.answered(body)
        super().answered(request, body)
        actor = self.actors[request.who]
        if request.api == "JoinGroup" and body and not int(body["error_code"]):
            actor.is_consumer = False
        elif request.api == "SyncGroup" and body and not int(body["error_code"]):
            rows = read_assignment(body["assignment"] or b"") or []
            ids = {self.topics[name]: each for name, each in self._ids.items()}
            actor.assigned = {
                ids[row["name"]]: row["partitions"]
                for row in rows
                if row["name"] in ids
            }

    def _heard(self, request: Request, body: dict[str, Any]) -> None:
        actor = self.actors[request.who]
        sent, code = request.fields, int(body["error_code"])
        self.env.symbols.name_member(body["member_id"] or "", request.who)
        if sent["member_id"] not in ("", actor.member_id):
            return
        if code in _LOST:
            actor.abandon()
            if code != 110:
                actor.forget()
        if code:
            return
        if sent["member_epoch"] in (LEAVES, GOES_AWAY):
            actor.forget()
            return
        if body["member_id"] != actor.member_id:
            actor.old_id, actor.member_id = actor.member_id, body["member_id"]
        actor.is_consumer = True
        if body["member_epoch"] != actor.generation:
            actor.previous, actor.generation = actor.generation, body["member_epoch"]
        if body["assignment"] is not None:
            actor.assigned = partitions_of(body)

    def told(self, request: Request, body: dict[str, Any]) -> dict[str, Any]:
        """The response without other runs' groups, and a topic's configuration."""
        if request.api == "CreateTopics":
            body["topics"] = [
                t | {"configs": "any", "topic_id": "any"} for t in body["topics"]
            ]
        return super().told(request, body)

    def plain(self, value: Any, key: str = "") -> Any:
        """A message with readable assignments: brokers order their topics by ids."""
        if isinstance(value, dict):
            return {k: self.plain(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [self.plain(each) for each in value]
        if isinstance(value, bytes) and key in _ASSIGNMENTS:
            rows = read_assignment(value)
            return value if rows is None else rows
        return value

    # -- the state

    @property
    def order(self) -> Any:
        """All that decides how partitions are divided, beside the requests.

        The assignor `range` takes members in the order of their ids, `uniform` both
        members and topics in that of the hashes of their ids.
        """
        symbols = self.env.symbols
        if self._is_range:
            return [symbols.for_text(each) for each in sorted(self._members)]
        made = [each for each in self._members if symbols.knows(each)]
        topics = [*self._ids.values()]
        return made, topics if len(topics) > 1 else []

    async def state(self) -> Any:
        """The group as both protocols describe it, and its offsets."""
        await self._done()
        wanted = {"groups": [{"group_id": self.group, "topics": None}]}
        bodies = await self.ask(
            Request("watcher", "ConsumerGroupDescribe", 1, {"group_ids": [self.group]}),
            Request("watcher", "DescribeGroups", 6, {"groups": [self.group]}),
            Request("watcher", "OffsetFetch", 9, wanted),
        )
        (described,), (classic,) = bodies[0]["groups"], bodies[1]["groups"]
        self._members = [each["member_id"] for each in described["members"]]
        members = [
            each | {"member_id": self._shown_id(each["member_id"])}
            for each in described["members"]
        ]
        unnamed = [
            {k: v for k, v in m.items() if k != "member_id"} for m in classic["members"]
        ]
        return {
            "consumer": self.rendered(described | {"members": members}),
            "classic": self.rendered(classic | {"members": unnamed}),
            "offsets": self.rendered(bodies[2]["groups"][0]["topics"]),
        }

    def _shown_id(self, member_id: str) -> str:
        """A member id; one whose response has not been compared yet has no name."""
        is_made_up = member_id == MADE_UP or "." in member_id
        return member_id if is_made_up or self.env.symbols.knows(member_id) else ""

    async def _done(self) -> None:
        """Waits for the work that follows the requests so far; see the head."""
        calls = [each.call for each in self._sent if each.call is not None]
        for call in calls:
            await call.wait()
        await self._transactions.until_written()
        if not self._is_known:
            await self._learn_topics()
            self._is_known = True
        if calls and self._has_patterns:
            self._probes += 1
            probe = Probe(self.ask, f"{self.group}-probe{self._probes}")
            await probe.until_matched(COMMON_TOPICS[0])
        self._sent = []

    async def _learn_topics(self) -> None:
        """Waits until the group coordinator knows the topics as they are."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while (ids := await self._topic_ids()) is None:
            check(loop.time() < deadline, "Metadata does not show the topics")
            await asyncio.sleep(0.01)
        for name, topic_id in ids.items():
            if self._ids.get(name) != topic_id:
                self._made += 1
                self.env.symbols.name_uuid(topic_id, f"<id:{name}.{self._made}>")
        self._ids = ids
        wanted = {ids[name]: [*range(n)] for name, n in self._partitions.items()}
        await self._probe.until_assigned([*self.topics.values()], wanted)

    async def _topic_ids(self) -> dict[str, uuid.UUID] | None:
        """The ids of the topics; None if Metadata does not have them as they are."""
        names = {raw: name for name, raw in self.topics.items()}
        wanted = [{"name": raw, "topic_id": None} for raw in names]
        fields = {"topics": wanted, "allow_auto_topic_creation": False}
        (body,) = await self.ask(Request("watcher", "Metadata", 12, fields))
        found: dict[str, int] = {}
        ids: dict[str, uuid.UUID] = {}
        for topic in body["topics"]:
            if int(topic["error_code"]) == 0:
                name = names[topic["name"]]
                led = [p for p in topic["partitions"] if p["leader_id"] >= 0]
                found[name], ids[name] = len(led), topic["topic_id"]
        return ids if found == self._partitions else None

    async def keep_alive(self, step: Step) -> None:
        """Sends a heartbeat for each actor that a wait keeps alive."""
        beats = []
        for actor in map(self.actors.__getitem__, step["alive"]):
            if actor.member_id and actor.is_consumer and actor.generation > 0:
                beats.append(self._beat(actor, {"owned": "assigned"}))
            elif actor.member_id and not actor.is_consumer:
                beats.append(self._heartbeat(actor, {"version": 4}))
        for beat, body in zip(beats, await self.ask(*beats), strict=True):
            if beat.api == "ConsumerGroupHeartbeat" and body is not None:
                self._heard(beat, body)
