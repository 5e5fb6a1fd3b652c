"""Random worlds: a seed gives a scenario, as the values of its TOML file.

They are small and fast: short timeouts, few members, some happenings, and then enough
quiet time for the groups to settle.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

Values = dict[str, Any]

BEGIN_S: Final = 4.0
END_S: Final = 40.0
"""Happenings begin between these times."""
LONGEST_S: Final = 16.0
"""Maximum length of a happening, and of the time that a node is down."""
SLACK_S: Final = 12.0
"""Added to the bound for the quiet time."""


def world(seed: int) -> Values:
    """The world of a seed."""
    random = Random(seed)
    protocol = random.choice(["eager", "cooperative", "consumer"])
    nodes = random.choice([1, 1, 2, 3])
    settings = _settings(random, protocol)
    config = _config(random)
    session_ms = settings.get(
        "session.timeout.ms", config["group.consumer.session.timeout.ms"]
    )
    bound_ms = session_ms + 2 * settings["max.poll.interval.ms"]
    bound_ms += settings["metadata.max.age.ms"] + settings["request.timeout.ms"]
    topics = {
        name: {
            "partitions": random.randint(1, 12),
            "rate": random.choice([0.05, 0.2, 0.5]),
        }
        for name in ["t", "u"][: random.choice([1, 1, 1, 2])]
    }
    values: Values = {
        "brokers": {"nodes": nodes, "config": config},
        "network": {"latency_ms": random.choice(_LATENCIES)},
        "topics": topics,
        "groups": {"g": _group(random, protocol, settings)},
    }
    rows = [row for _ in range(random.randint(0, 6)) for row in _row(random, values)]
    values["happenings"] = sorted(_possible(rows, nodes), key=lambda row: row["at"])
    last = max((_end(row) for row in values["happenings"]), default=10.0)
    values["duration"] = round(last + bound_ms / 1000 + SLACK_S)
    return values


_LATENCIES: Final = [0.5, 0.5, {"median": 1, "p99": 20}, {"uniform": [1, 60]}]


def _config(random: Random) -> Values:
    """The brokers' configuration."""
    config: Values = {
        "offsets.topic.num.partitions": random.choice([1, 2]),
        "group.initial.rebalance.delay.ms": random.choice([0, 500, 2000]),
        "group.min.session.timeout.ms": 1000,
        "group.consumer.session.timeout.ms": random.choice([3000, 6000, 9000]),
        "group.consumer.min.session.timeout.ms": 1000,
        "group.consumer.heartbeat.interval.ms": random.choice([500, 1000, 2000]),
        "group.consumer.min.heartbeat.interval.ms": 500,
    }
    if random.random() < 0.3:
        config["group.coordinator.append.linger.ms"] = random.choice([0, 5, 30])
    if random.random() < 0.3:
        config["log.flush.interval.ms"] = random.choice([500, 5000])
    if random.random() < 0.2:
        config["coordinator.load.delay.ms"] = random.choice([200, 3000])
    if random.random() < 0.15:
        size = random.randint(2, 6)
        config |= {"group.max.size": size, "group.consumer.max.size": size}
        config["kohort.strictness"] = "helpful"
    return config


def _settings(random: Random, protocol: str) -> Values:
    """The consumers' settings."""
    settings: Values = {
        "max.poll.interval.ms": random.choice([6000, 10000, 14000]),
        "metadata.max.age.ms": random.choice([2000, 6000]),
        "request.timeout.ms": random.choice([3000, 6000]),
        "auto.commit.interval.ms": random.choice([500, 2000, 5000]),
        "max.poll.records": random.choice([1, 5, 50]),
    }
    if protocol != "consumer":
        settings["session.timeout.ms"] = random.choice([3000, 6000, 9000])
        settings["heartbeat.interval.ms"] = random.choice([500, 1000])
    return settings


def _group(random: Random, protocol: str, settings: Values) -> Values:
    return {
        "members": random.randint(2, 6),
        "protocol": protocol,
        "static": random.random() < 0.35,
        "commits": random.choice(["auto", "sync", "async"]),
        "record_ms": random.choice([0, 5, {"exponential": 20}]),
        "start_every_ms": random.choice([0, 0, 300, {"exponential": 2000}]),
        "settings": settings,
    }


# -- happenings


def _row(random: Random, values: Values) -> list[Values]:
    """A happening; a node that goes away comes back, as another one."""
    verb, group = random.choice(_VERBS), values["groups"]["g"]
    if verb == "grow" and group["static"] and group["protocol"] != "consumer":
        # As in Kafka, a leader that was away takes partitions that it has missed for
        # known: they are assigned in the next rebalance.
        verb = "pause"
    row: Values = {"at": round(random.uniform(BEGIN_S, END_S), 2), "do": verb}
    length = round(random.uniform(0.1, LONGEST_S), 2)
    if verb in {"stop-node", "crash-node"}:
        row["node"] = random.randint(1, values["brokers"]["nodes"])
        if verb == "crash-node":
            row["power"] = random.random() < 0.7
        back = {"at": round(row["at"] + length, 2), "do": "start-node"}
        return [row, back | {"node": row["node"]}]
    _about_brokers(random, row, values)
    _about_members(random, row, length)
    if verb in {"pause", "stall", "cut", "slow"}:
        row["seconds"] = length
    if verb == "slow":
        row["factor"] = random.choice([20, 300])
    return [row]


def _about_brokers(random: Random, row: Values, values: Values) -> None:
    if row["do"] == "move-coordinator":
        row["node"] = random.randint(1, values["brokers"]["nodes"])
    elif row["do"] == "grow":
        name = random.choice([*values["topics"]])
        before = values["topics"][name]["partitions"]
        row |= {"topic": name, "partitions": before + random.randint(1, 4)}


def _about_members(random: Random, row: Values, length: float) -> None:
    verb, members = row["do"], random.randint(1, 3)
    if verb == "roll":
        row |= {"at_once": random.choice([0, 1, 2]), "ready_timeout": 5}
        row["down_s"] = {"uniform": [0, random.choice([0.5, 8])]}
        row["identity"] = random.choice(["same", "new"])
    elif verb == "scale":
        row |= {"step": random.choice([-2, -1, 1, 2]), "every": 4, "times": 2}
    elif verb == "start":
        row["members"] = min(members, 2)
    elif verb in _SOME and random.random() < 0.8:
        row["members"] = members
    if verb in {"stop", "crash"} and random.random() < 0.7:
        row["restart_after_s"] = {"uniform": [0, length]}
    if verb == "stop" and random.random() < 0.4:
        row["leaves"] = random.random() < 0.5


_SOME: Final = {"stop", "crash", "pause", "stall", "cut", "disconnect"}
"""Happenings of some members, or of all."""
_VERBS: Final = [
    *("start", "stop", "crash", "roll", "scale", "pause", "pause", "stall", "grow"),
    *("stop-node", "crash-node", "crash-node", "move-coordinator", "cut", "cut"),
    *("slow", "disconnect"),
]


def _possible(rows: list[Values], nodes: int) -> list[Values]:
    """Leaves out the impossible: a node goes away once, and a topic grows once."""
    found: dict[tuple[str, object], Values] = {}
    for number, row in enumerate(rows):
        verb = row["do"]
        if verb in {"stop-node", "crash-node"}:
            found.setdefault(("away", row["node"]), row)
        elif verb == "start-node":
            if found["away", row["node"]] is rows[number - 1]:
                found["back", row["node"]] = row
        elif verb == "grow":
            found.setdefault(("grow", row["topic"]), row)
        elif verb != "move-coordinator" or nodes > 1:
            found["other", number] = row
    return [
        row
        for row in found.values()
        if row["do"] != "move-coordinator" or ("away", row["node"]) not in found
    ]


def _end(row: Values) -> float:
    """A time at which a happening is over, and its restarts are."""
    length: float = row.get("seconds", 0.0)
    if row["do"] == "roll":
        length = 40.0
    elif row["do"] == "scale":
        length = row["every"] * row["times"]
    elif "restart_after_s" in row:
        length = LONGEST_S
    at: float = row["at"]
    return at + length
