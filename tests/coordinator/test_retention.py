"""The expiry of offsets and groups: exactly as in Apache Kafka 4.3, on virtual time.

Recorded by hand from a broker with `offsets.retention.minutes=1` and a check every 2 s:
one group per case, with offsets and state polled twice per second.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.coordinator.context import Context
from tests.coordinator.member import Member, assign, subscribed

LONG = {"session_ms": 1_700_000, "rebalance_ms": 600_000}
CHECK_S = 2
END_S = 110

# Seconds after which Kafka had no offset for topic and partition, or no group. None: it
# still had it after 110 s. Polled between two checks, so the tolerance is one check.
GONE: dict[tuple[str, str], int | None] = {
    ("simple", "x0"): 60,
    ("simple", "group"): 60,
    ("emptied after 10 s", "x0"): 70,
    ("emptied after 10 s", "y0"): 70,
    ("emptied after 10 s", "group"): 70,
    ("stable, subscribed to x", "x0"): None,
    ("stable, subscribed to x", "y0"): 60,
    ("stable, subscribed to x", "group"): None,
    ("stable, of another type", "x0"): None,
    ("stable, of another type", "y0"): None,
    ("stable, unparsable", "x0"): None,
    ("stable, unparsable", "y0"): None,
    ("kept for 5 s", "x0"): 5,
    ("kept for 5 s", "group"): 5,
    ("kept for 100 s", "x0"): 100,
    ("kept for 0 s", "x0"): 0,
    ("kept for -2 ms", "x0"): 0,
    ("kept for -1 ms", "x0"): 60,
    ("only an id", "group"): 0,
    ("completing, then stable after 80 s", "y0"): 80,
    ("completing, then stable after 80 s", "group"): None,
    ("preparing", "y0"): None,
    ("stable, kept for 5 s", "x0"): None,
    ("stable, kept for 5 s", "y0"): 5,
    ("empty, committed again after 50 s", "x0"): 60,
    ("empty, committed again after 50 s", "y0"): 60,
    ("empty, committed again after 50 s", "group"): 60,
    ("empty, one kept for 5 s", "x0"): 60,
    ("empty, one kept for 5 s", "x1"): 5,
    ("committed again after 30 s", "x0"): 60,
    ("committed again after 30 s", "x1"): 90,
    ("committed again after 30 s", "group"): 90,
    ("kept for 5 s, then for as long as all", "x0"): 60,
    ("kept for as long as all, then for 5 s", "x0"): 5,
    ("empty, of another type", "x0"): 60,
    ("empty, of another type", "group"): 60,
    ("empty, no offsets", "group"): 0,
    ("empty, last offset deleted", "group"): 0,
}


def _commit(context: Context, group: str, *names: str, retention_ms: int = -1) -> None:
    rows = [(name[0], int(name[1:]), 1, -1, "") for name in names]
    assert context.commit(rows, group=group, retention_ms=retention_ms).error_code == 0


def _member(context: Context, group: str, protocol_type: str = "consumer") -> Member:
    """The only member of a Stable group, subscribed to x."""
    member = context.member(
        "A", group=group, protocols=subscribed("x"), protocol_type=protocol_type, **LONG
    )
    context.form([member])
    return member


def _simple_groups(context: Context) -> None:
    _commit(context, "simple", "x0")
    for seconds in (5, 100, 0):
        group = f"kept for {seconds} s"
        _commit(context, group, "x0", retention_ms=seconds * 1000)
    for milliseconds in (-2, -1):
        group = f"kept for {milliseconds} ms"
        _commit(context, group, "x0", retention_ms=milliseconds)
    _commit(context, "committed again after 30 s", "x0")
    _commit(context, "kept for 5 s, then for as long as all", "x0", retention_ms=5000)
    _commit(context, "kept for 5 s, then for as long as all", "x0")
    _commit(context, "kept for as long as all, then for 5 s", "x0")
    _commit(context, "kept for as long as all, then for 5 s", "x0", retention_ms=5000)


def _groups_with_members(context: Context) -> dict[str, Member]:
    members = {}
    for group in ("emptied after 10 s", "stable, subscribed to x"):
        members[group] = _member(context, group)
    members["stable, of another type"] = _member(
        context, "stable, of another type", "connect"
    )
    unparsable = context.member(
        "A", group="stable, unparsable", protocols=[("range", b"m")], **LONG
    )
    context.form([unparsable])
    members["stable, unparsable"] = unparsable
    for member in members.values():
        assert (member.commit("x", 1), member.commit("y", 1)) == (0, 0)
    group = "stable, kept for 5 s"
    member = _member(context, group)
    for topic in "xy":
        assert member.commit(topic, 1, retention_ms=5000) == 0
    return members


def _rebalancing_groups(context: Context) -> Member:
    group = "completing, then stable after 80 s"
    _commit(context, group, "y0")
    completing = context.member("A", group=group, protocols=subscribed("x"), **LONG)
    context.form([completing], sync=False)
    _commit(context, "preparing", "y0")
    member = _member(context, "preparing")
    context.member("B", group="preparing", **LONG).join()
    member.join()
    return completing


def _empty_groups(context: Context) -> None:
    group = "empty, committed again after 50 s"
    member = _member(context, group)
    member.commit("x", 1)
    member.leave()
    group = "empty, one kept for 5 s"
    _member(context, group).leave()
    _commit(context, group, "x0")
    _commit(context, group, "x1", retention_ms=5000)
    member = _member(context, "empty, of another type", "connect")
    member.commit("x", 1)
    member.leave()
    _member(context, "empty, no offsets").leave()
    member = _member(context, "empty, last offset deleted")
    member.commit("x", 1)
    member.leave()
    context.delete_offsets(("x", [0]), group="empty, last offset deleted")
    context.member("A", group="only an id", **LONG).join()


def _has(context: Context, group: str, what: str) -> bool:
    if what == "group":
        return context.state(group) != "Dead"
    return context.committed(what[0], int(what[1:]), group) >= 0


def test_offsets_expire_when_kafkas_do() -> None:
    """Every case of the table, in one coordinator, second by second."""
    context = Context(
        offsets_retention_ms=60_000,
        offsets_retention_check_interval_ms=CHECK_S * 1000,
    )
    _simple_groups(context)
    members = _groups_with_members(context)
    completing = _rebalancing_groups(context)
    _empty_groups(context)
    later: dict[int, Callable[[], object]] = {
        10: members["emptied after 10 s"].leave,
        30: lambda: _commit(context, "committed again after 30 s", "x1"),
        50: lambda: _commit(context, "empty, committed again after 50 s", "y0"),
        80: lambda: completing.sync(assign(completing)),
    }
    seen: set[tuple[str, str]] = set()
    gone: dict[tuple[str, str], int] = {}
    context.sleep(500)  # so that no poll coincides with a check
    for second in range(END_S):
        if second in later:
            later[second]()
        for case in GONE.keys() - gone.keys():
            if _has(context, *case):
                seen.add(case)
            elif case in seen:
                gone[case] = second
        context.sleep(1000)
    assert seen == GONE.keys()
    for case, expected in GONE.items():
        found = gone.get(case)
        if expected is None or found is None:
            assert (case, found) == (case, expected)
        else:
            assert expected <= found <= expected + CHECK_S + 1, (case, found)
