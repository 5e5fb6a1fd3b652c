"""Makes a scenario of the events of a group, as it was recorded.

Members, partitions, timeouts and rates are the group's. Departures become happenings: a
member that came back within `RETURN_S`, by its instance id or its client id and host,
was restarted; so was one whose place a new member took. Times of processing and of the
network are not in events.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kohort.client.assignors import ASSIGNORS
from kohort.simulation.scenario.reading import ScenarioError

START_S: Final = 30.0
"""Members that join so soon after the first, and before one goes, are there at the
start."""
RETURN_S: Final = 300.0
"""A member that is away for longer has stopped."""
AFTER_S: Final = 60.0
"""Seconds that a scenario goes on after the last event."""
HEARTBEATS: Final = 3
"""Heartbeats of a member in a session timeout that is short."""
_JOINS: Final = frozenset({"member_joined", "member_replaced"})
_ENDS: Final = frozenset({"member_left", "member_expired", "member_kicked"})

FEWEST: Final = 3
"""Restarts that may be a deployment."""

Event = Mapping[str, Any]
_Timed = tuple[int, dict[str, Any]]
"""A happening and its time."""


def values_of(events: Iterable[Event], group: str | None) -> dict[str, Any]:
    """The values of a scenario, as TOML has them.

    Args:
        events: in order; of several runs the last one counts.
        group: its id; None: there is one group.

    Raises:
        ScenarioError: there are several groups, or the group had no members.
    """
    recorded, run = _Recorded(), None
    for event in events:
        if event["run"] != run:
            recorded, run = _Recorded(), event["run"]
        recorded.add(event)
    names = sorted(recorded.groups)
    if group is None and len(names) > 1:
        raise ScenarioError(f"--group is missing: the groups are {', '.join(names)}")
    name = group or (names[0] if names else "")
    if name not in recorded.groups:
        text = f"the groups are {', '.join(names)}" if names else "there is no group"
        raise ScenarioError(f"no member of {name or 'a group'} joined; {text}")
    return recorded.values(name, recorded.groups[name])


class _Group:
    """The group while its events are read."""

    def __init__(self) -> None:
        self.joins: list[Event] = []
        self.ends: list[Event] = []
        self.delay_ms: int | None = None
        self.topics: set[str] = set()
        self.partitions: defaultdict[str, int] = defaultdict(int)
        # Of each partition the time and the end at the first and the last commit.
        self.log_ends: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.last_ns = 0

    def add(self, event: Event) -> None:
        kind = event["kind"]
        self.last_ns = event["time_ns"]
        if kind in _JOINS and event.get("is_first", True):
            self.joins.append(event)
            self.topics |= {*(event.get("topics") or ())}
        elif kind in _ENDS and not event.get("was_pending"):
            self.ends.append(event)
        elif kind == "window_opened":
            self.delay_ms = event["delay_ms"]
        elif kind == "partitions_changed":
            for part in event.get("owned") or ():
                self._see(part["topic"], max(part["partitions"], default=-1))
        elif kind == "offsets_committed":
            for row in event["offsets"]:
                self._see(row["topic"], row["partition"])
                if row.get("end_offset") is not None:
                    point = event["time_ns"], row["end_offset"]
                    place = row["topic"], row["partition"]
                    self.log_ends.setdefault(place, [point, point])[1] = point

    def at_start(self) -> list[Event]:
        """The joins of the members that were there at the start."""
        first_ns = self.joins[0]["time_ns"]
        gone_ns = self.ends[0]["time_ns"] if self.ends else math.inf
        return [
            join
            for join in self.joins
            if join["time_ns"] <= min(gone_ns, first_ns + START_S * 1e9)
            and join["kind"] == "member_joined"
        ]

    def _see(self, topic: str, partition: int) -> None:
        self.topics.add(topic)
        self.partitions[topic] = max(self.partitions[topic], partition + 1)

    def rate(self, topic: str) -> float:
        """Records per second in each partition of a topic."""
        rates = [
            (end - begin) * 1e9 / (until - since)
            for (name, _), ((since, begin), (until, end)) in self.log_ends.items()
            if name == topic and until > since
        ]
        return float(f"{statistics.fmean(rates):.3g}") if rates else 0.0


class _Recorded:
    def __init__(self) -> None:
        self.groups: dict[str, _Group] = {}
        self._others: defaultdict[str, _Group] = defaultdict(_Group)
        self._nodes: set[int] = set()

    def add(self, event: Event) -> None:
        self._nodes.add(event["node"])
        name = event.get("group")
        if name is not None:
            group = self._others[name]
            group.add(event)
            if group.joins:
                self.groups[name] = group

    def values(self, name: str, group: _Group) -> dict[str, Any]:
        first = group.joins[0]
        start_ns = first["time_ns"]
        soon = group.at_start()
        config, settings = _settings(first)
        if group.delay_ms is not None:
            config["group.initial.rebalance.delay.ms"] = group.delay_ms
        spread_ms = (soon[-1]["time_ns"] - start_ns) // 1_000_000
        return {
            "title": f"The group {name}, as it was recorded",
            "duration": round(_s(group.last_ns - start_ns) + AFTER_S, 1),
            "brokers": {"nodes": len(self._nodes), "config": config},
            "topics": {
                topic: {
                    "partitions": group.partitions.get(topic, 1),
                    "rate": group.rate(topic),
                }
                for topic in sorted(group.topics)
            },
            "groups": {
                name: {
                    "members": len(soon),
                    "topics": sorted(group.topics),
                    "protocol": _protocol(first),
                    "static": first.get("instance_id") is not None,
                    "start_every_ms": round(spread_ms / max(1, len(soon) - 1)),
                    "settings": settings,
                }
            },
            "happenings": _happenings(name, group, soon, start_ns),
        }


def _s(ns: int) -> float:
    return ns / 1e9


def _protocol(join: Event) -> str:
    if join.get("group_type") == "consumer":
        return "consumer"
    is_cooperative = (join.get("protocols") or [""])[0] == "cooperative-sticky"
    return "cooperative" if is_cooperative else "eager"


def _settings(join: Event) -> tuple[dict[str, Any], dict[str, Any]]:
    """The brokers' and the consumers' settings that a join names."""
    session_ms, rebalance_ms = join["session_timeout_ms"], join["rebalance_timeout_ms"]
    settings: dict[str, Any] = {"max.poll.interval.ms": rebalance_ms}
    if join.get("group_type") == "consumer":
        return {"group.consumer.session.timeout.ms": session_ms}, settings
    settings["session.timeout.ms"] = session_ms
    settings["heartbeat.interval.ms"] = min(3000, max(1, session_ms // HEARTBEATS))
    assignor = (join.get("protocols") or [""])[0]
    if assignor in ASSIGNORS:
        settings["partition.assignment.strategy"] = assignor
    config = {}
    if not 6000 <= session_ms <= 1_800_000:
        config["group.min.session.timeout.ms"] = min(session_ms, 6000)
        config["group.max.session.timeout.ms"] = max(session_ms, 1_800_000)
    return config, settings


# -- what happened


def _happenings(
    name: str, group: _Group, soon: Sequence[Event], start_ns: int
) -> list[dict[str, Any]]:
    """Departures, returns and further joins, by the slots of the members."""
    left = [join for join in group.joins if join not in soon]
    returns: dict[int, Event] = {}
    for number, end in enumerate(group.ends):
        join = _return_of(end, left)
        if join is not None:
            left.remove(join)
            returns[number] = join
    slots = {join["member_id"]: slot for slot, join in enumerate(soon, 1)}
    found: list[_Timed] = []
    count = len(soon)
    for join in left:
        if join["kind"] == "member_replaced":
            slots[join["member_id"]] = slots.get(join["replaced_member_id"], 1)
            at_ns = join["time_ns"] - (join.get("silent_ns") or 0)
            found.append((at_ns, _ended("stop", slots[join["member_id"]], at_ns, join)))
        else:
            count += 1
            slots[join["member_id"]] = count
            found.append((join["time_ns"], {"do": "start", "members": 1}))
    for number, end in enumerate(group.ends):
        back, slot = returns.get(number), slots.get(end["member_id"], 1)
        at_ns, verb = end["time_ns"], "stop"
        if end["kind"] == "member_expired":
            at_ns -= end.get("silent_ns") or 0
            verb = "pause" if end.get("is_connected") and back else "crash"
        if back is not None:
            slots[back["member_id"]] = slot
        found.append((at_ns, _ended(verb, slot, at_ns, back)))
    found.sort(key=lambda each: each[0])
    return [
        {"at": max(0.0, round(_s(at_ns - start_ns), 1)), "group": name} | keys
        for at_ns, keys in _rolled(found, len(soon))
    ]


def _rolled(found: list[_Timed], members: int) -> list[_Timed]:
    """A roll, if that is all that has happened: each member was restarted once.

    Its next pod follows when one has an assignment, which depends on the settings.
    """
    slots = {keys.get("slot") for _, keys in found}
    restarts = [keys for _, keys in found if "restart_after_s" in keys]
    if len(found) < FEWEST or len(restarts) < len(found) or len(slots) < len(found):
        return found
    if len(found) < members or any(keys["do"] != "stop" for keys in restarts):
        return found
    away_ns = [round(keys["restart_after_s"] * 1e9) for keys in restarts]
    spans = [
        (begin, begin + away) for (begin, _), away in zip(found, away_ns, strict=True)
    ]
    at_once = max(sum(begin <= at < until for begin, until in spans) for at, _ in found)
    down_s = [max(0.1, keys["restart_after_s"]) for keys in restarts]
    spread = {"median": round(statistics.median(down_s), 1), "p99": max(down_s)}
    return [(found[0][0], {"do": "roll", "at_once": at_once, "down_s": spread})]


def _ended(verb: str, slot: int, at_ns: int, back: Event | None) -> dict[str, Any]:
    happening: dict[str, Any] = {"do": verb, "slot": slot}
    if back is not None:
        key = "seconds" if verb == "pause" else "restart_after_s"
        happening[key] = round(max(0.0, _s(back["time_ns"] - at_ns)), 1)
    return happening


def _return_of(end: Event, joins: list[Event]) -> Event | None:
    """The join by which a member came back; or else a new member that took its place.

    Args:
        end: its departure.
        joins: those that no other member came back by.
    """
    near = [
        join for join in joins if 0 <= _s(join["time_ns"] - end["time_ns"]) <= RETURN_S
    ]
    for keys in (("instance_id",), ("client_id", "host"), ("client_id",)):
        own = [end.get(key) for key in keys]
        for join in near:
            if None not in own and own == [join.get(key) for key in keys]:
                return join
    known = {each["client_id"] for each in joins}
    is_gone = end.get("client_id") not in known
    fresh = (join for join in near if is_gone and join["kind"] == "member_joined")
    return next(fresh, None)
