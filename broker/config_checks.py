"""Kafka's rules about several keys at once, and about changes at run time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from kohort.broker.config_keys import BROKER_KEYS, FAMILIES, GROUP_KEYS

UNITS_MS = {"ms": 1, "minutes": 60_000, "hours": 3_600_000}
"""Milliseconds per unit, by the last word of a key."""

THREADS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
CLASSES = ("principal.builder.class", "ssl.engine.factory.class")

_NO_CLASSES = "kohort loads no classes of Java"
_CLEANER_BUFFER_PER_THREAD = 1024 * 1024
_OVERRIDES = re.compile(r"\s*([^,:\s]+:\d{1,10}\s*(,\s*[^,:\s]+:\d{1,10}\s*)*)?")


class Values(Protocol):
    """A broker's values: a mapping, or a `Config`."""

    def __getitem__(self, name: str, /) -> Any: ...


Violation = tuple[str, str]
"""A key, and the fault of its value."""


def in_ms(values: Mapping[str, Any], name: str) -> Any:
    """Milliseconds from the first key of a family that is set; None if none is."""
    for key in FAMILIES[name]:
        if values[key] is not None:
            return values[key] * UNITS_MS[key.rpartition(".")[2]]
    return None


def violations(values: Mapping[str, Any]) -> Iterator[Violation]:
    """Yields the rules that these broker values break."""
    yield from _times(values)
    yield from _connections(values)
    buffer, threads = "log.cleaner.dedupe.buffer.size", values["log.cleaner.threads"]
    if not threads or values[buffer] // threads <= _CLEANER_BUFFER_PER_THREAD:
        yield buffer, "must be above 1048576 for each of log.cleaner.threads"
    wait = values["replica.fetch.wait.max.ms"]
    for name in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if values[name] < wait:
            yield name, f"must be at least replica.fetch.wait.max.ms ({wait})"
    dirs = values["log.dirs"] or values["log.dir"]
    if not set(values["cordoned.log.dirs"]) <= set(dirs):
        yield "cordoned.log.dirs", "must be directories of log.dirs"
    for key in GROUP_KEYS.values():
        for parent in key.parents:
            yield from _bounds(parent, key.name, values[parent], values)
        least, most = bounds_of(key.name)
        if {least, most} <= BROKER_KEYS.keys() and values[most] < values[least]:
            yield most, f"must be at least {least} ({values[least]})"
    yield from _heartbeats(values, "group.")
    if not values["group.consumer.assignors"]:
        yield "group.consumer.assignors", "must not be empty"
    if "classic" not in values["group.coordinator.rebalance.protocols"]:
        yield "group.coordinator.rebalance.protocols", "must contain classic"


def _heartbeats(values: Values, prefix: str) -> Iterator[Violation]:
    """Yields the session timeouts that are not above the heartbeat interval."""
    for kind in ("consumer", "share", "streams"):
        session = f"{prefix}{kind}.session.timeout.ms"
        heartbeat = f"{prefix}{kind}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            yield session, f"must be above {heartbeat} ({values[heartbeat]})"


def _times(values: Mapping[str, Any]) -> Iterator[Violation]:
    for family, least, why in (
        ("log.retention.ms", 1, "must be -1 (for ever) or at least 1"),
        ("log.roll.ms", 1, "must be at least 1"),
        ("log.roll.jitter.ms", 0, "must be at least 0"),
    ):
        found = in_ms(values, family)
        is_forever = family == "log.retention.ms" and found < 0
        if found < least and not is_forever:
            keys = FAMILIES[family]
            yield next(name for name in keys if values[name] is not None), why


def _connections(values: Mapping[str, Any]) -> Iterator[Violation]:
    largest = values["socket.request.max.bytes"]
    if 0 < values["queued.max.request.bytes"] < largest:
        why = f"must be at least socket.request.max.bytes ({largest})"
        yield "queued.max.request.bytes", why
    delay = values["connection.failed.authentication.delay.ms"]
    if 0 <= values["connections.max.idle.ms"] <= delay:
        why = f"must be above connection.failed.authentication.delay.ms ({delay})"
        yield "connections.max.idle.ms", why
    overrides = values["max.connections.per.ip.overrides"]
    if not _OVERRIDES.fullmatch(overrides):
        yield "max.connections.per.ip.overrides", "must be address:number,..."
    if not values["max.connections.per.ip"] and not overrides:
        why = "must be at least 1 without max.connections.per.ip.overrides"
        yield "max.connections.per.ip", why


def group_violations(changed: Mapping[str, Any], values: Values) -> Iterator[Violation]:
    """Yields the rules that a group's configuration breaks.

    Args:
        changed: the values of the group, all keys of `GROUP_KEYS`.
        values: the broker's values.
    """
    for key in GROUP_KEYS.values():
        yield from _bounds(key.name, key.name, changed[key.name], values)
    yield from _heartbeats(changed, "")


def bounds_of(group_key: str) -> tuple[str, str]:
    """The broker's keys with the least and the largest value of a group's key.

    They have the key's name with min or max in it, as in
    ``group.consumer.min.session.timeout.ms``. Some of these keys do not exist.
    """
    kind, _, rest = group_key.partition(".")
    rest = rest.removeprefix("num.")
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


def _bounds(
    name: str, group_key: str, value: Any, values: Values
) -> Iterator[Violation]:
    """Yields the broker's bound that a group's value exceeds."""
    least, most = bounds_of(group_key)
    if least in BROKER_KEYS and value < values[least]:
        yield name, f"must be at least {least} ({values[least]})"
    if most in BROKER_KEYS and value > values[most]:
        yield name, f"must be at most {most} ({values[most]})"


def change_violations(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Violation]:
    """Yields the rules that a change at run time breaks."""
    for name in THREADS:
        before, after = old[name], new[name]
        if after != before and not before // 2 <= after <= before * 2:
            yield name, f"must be {before // 2} to {before * 2}: it was {before}"
        elif after < 1:
            yield name, "must be at least 1"
    for name in CLASSES:
        if new[name] not in {old[name], BROKER_KEYS[name].default}:
            yield name, _NO_CLASSES
    reporters = {*old["metric.reporters"], BROKER_KEYS["metric.reporters"].default}
    if not reporters.issuperset(new["metric.reporters"]):
        yield "metric.reporters", _NO_CLASSES
