"""What metrics count of events: by whom, how long, and whose place it is."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.broker.coordinator.effects import Notice
from kohort.broker.events.bus import Events
from kohort.control.metrics.groups import LONGEST_NAME, MOST_GROUPS, OTHERS, GroupFold
from kohort.protocol.consumer import Assignment, TopicPartitions, encode

SOME = encode(Assignment([TopicPartitions("t", [0])]), 0)
"""An assignment."""


class Telling:
    """A fold, and events as coordinators hand them in."""

    def __init__(self) -> None:
        self.fold = GroupFold()
        self.now = 1000.0
        self._stream = Events()
        self._stream.begin("r")
        self._stream.listen(self.fold.take)

    def tell(
        self, kind: str, group: str = "g", member: str = "m", **fields: object
    ) -> None:
        """Something happens."""
        self._publish(Notice(kind, group, 1, (member, None, "c", "/h"), fields))

    def committed(self, group: str, count: int) -> None:
        """So many offsets are committed."""
        who = ("m", None, "c", "/h")
        fields = {"offsets": ("t", 0, 1, -1, "", None) * count}
        self._publish(Notice("offsets_committed", group, 1, who, fields, 1 + count))

    def _publish(self, notice: Notice) -> None:
        self._stream.of(1).publish(notice, self.now)

    def joined(self, member: str, cause: str, *assignors: str) -> None:
        """A JoinGroup is taken."""
        protocols = [(name, b"") for name in assignors or ("range",)]
        self.tell("member_joined", member=member, cause=cause, protocols=protocols)

    def assigned(self, *members: str, what: bytes = SOME) -> None:
        """Members are given an assignment, which was none before."""
        for member in members:
            self.tell(
                "partitions_changed",
                member=member,
                cause="assigned",
                before=b"",
                after=what,
            )

    def stood(self) -> Mapping[str, float]:
        """How many members have stood still, and how long together."""
        found = self.fold.of("g").stand_still_seconds
        return {"count": found.count, "seconds": found.total}


def test_who_stands_still() -> None:
    """From the join to the assignment; through two rebalances, if one follows."""
    t = Telling()
    t.assigned("old")
    t.joined("old", "rejoin")
    t.now += 2
    t.joined("old", "rejoin")
    t.now += 1
    t.tell("member_synced", member="old")
    assert t.stood() == {"count": 1, "seconds": 3}
    t.tell("member_synced", member="old")
    assert t.stood()["count"] == 1


def test_who_does_not_stand_still() -> None:
    """Newcomers, who has nothing, who cooperates, who is told again what it knows."""
    t = Telling()
    t.assigned("cooperative", "streams", "repeated")
    t.assigned("idle", what=encode(Assignment([]), 0))
    t.assigned("connect", what=b"\x00\x01 what no consumer can read")
    t.joined("new", "new")
    t.joined("idle", "rejoin")
    t.joined("connect", "rejoin")
    t.joined("cooperative", "rejoin", "cooperative-sticky")
    t.joined("streams", "metadata_changed", "stream")
    t.joined("repeated", "repeated")
    t.now += 1
    for member in ("new", "idle", "connect", "cooperative", "streams", "repeated"):
        t.tell("member_synced", member=member)
    assert t.stood()["count"] == 0


def test_who_supports_an_eager_assignor_lets_go_of_everything() -> None:
    """In the middle of the two restarts of KIP-429; and any name that is not known."""
    t = Telling()
    t.assigned("both", "own")
    t.joined("both", "rejoin", "cooperative-sticky", "range")
    t.joined("own", "rejoin", "cooperative-but-not-known")
    t.now += 1
    t.tell("member_synced", member="both")
    t.tell("member_synced", member="own")
    assert t.stood() == {"count": 2, "seconds": 2}


def test_who_is_gone_stands_still_no_longer() -> None:
    """It did until then; one that comes back under a new id begins anew."""
    t = Telling()
    t.assigned("gone", "static")
    t.joined("gone", "rejoin")
    t.joined("static", "rejoin")
    t.tell("group_state", state="PreparingRebalance", previous_state="Stable")
    t.now += 1
    t.tell("member_expired", member="gone")
    t.tell(
        "member_replaced",
        member="static-2",
        replaced_member_id="static",
        protocols=[("range", b"")],
    )
    assert t.stood() == {"count": 2, "seconds": 2}
    assert t.fold.of("g").departures == {"expired": 1, "replaced": 1}
    t.now += 2
    t.tell("member_synced", member="static-2")
    assert t.stood() == {"count": 3, "seconds": 4}


def test_a_coordinator_that_moves_stops_no_clock_of_a_member() -> None:
    """It waits for both of them; the rebalance that is not finished has no duration."""
    t = Telling()
    t.assigned("m", "unknown")
    t.tell("rebalance_started", cause="member_joined", culprits=["n"])
    t.joined("m", "rejoin")
    t.joined("unknown", "rejoin")
    t.now += 1
    t.tell("group_loaded", state="Stable", members=["m"])
    t.tell("assignment_made")
    assert t.stood() == {"count": 1, "seconds": 1}
    t.now += 1
    t.tell("member_synced")
    assert t.stood() == {"count": 2, "seconds": 3}
    assert t.fold.of("g").rebalance_seconds.count == 0


def test_a_rebalance_that_comes_to_nothing_has_no_duration() -> None:
    """Everybody leaves: it began, and that is all."""
    t = Telling()
    t.tell("rebalance_started", cause="member_left", culprits=[])
    t.tell("group_state", state="Empty", previous_state="PreparingRebalance")
    t.tell("assignment_made")
    counts = t.fold.of("g")
    assert (counts.rebalances, counts.rebalance_seconds.count) == (
        {"member_left": 1},
        0,
    )


def test_groups_that_are_gone_make_room() -> None:
    """The first that went loses its series, and its counts go to the others."""
    t = Telling()
    for number in range(MOST_GROUPS):
        t.committed(f"g{number}", 2)
    t.committed("late", 1)
    assert t.fold.others.commits == 1
    for number in (7, 3):
        t.tell("group_state", f"g{number}", state="Dead", previous_state="Empty")
    t.committed("late", 1)
    assert "g7" not in t.fold.by_group
    assert t.fold.by_group["late"].commits == 1
    assert (t.fold.others.commits, t.fold.others.offsets) == (2, 3)
    # It came back in time.
    t.tell("group_state", "g3", state="Empty", previous_state="Dead")
    t.committed("later", 1)
    assert "g3" in t.fold.by_group
    assert "later" not in t.fold.by_group


def test_a_pending_member_is_no_departure() -> None:
    """An id that was given out was never in the group."""
    t = Telling()
    t.tell("member_left", cause="left", was_pending=True)
    t.tell("member_kicked", cause="did_not_join_in_time", was_pending=False)
    t.tell("member_replaced", replaced_member_id="x", protocols=[])
    assert t.fold.of("g").departures == {"did_not_join_in_time": 1, "replaced": 1}


def test_groups_that_went_without_a_word_make_room() -> None:
    """As when __consumer_offsets is deleted; and those that are there keep theirs."""
    t = Telling()
    for number in range(MOST_GROUPS):
        t.committed(f"g{number}", 1)
    there = [f"g{number}" for number in range(MOST_GROUPS) if number != 7]
    t.fold.keep(there)
    t.committed("late", 1)
    assert "g7" not in t.fold.by_group
    t.committed("later", 1)
    assert {*t.fold.by_group} == {*there, "late"}
    # A group that was away is there again.
    t.fold.keep(there[1:])
    t.fold.keep(there)
    t.committed("later", 1)
    assert there[0] in t.fold.by_group


def test_sums_never_go_down() -> None:
    """Groups come and go, and some of their places with them."""
    t = Telling()
    sums: list[tuple[int, int]] = []
    for number in range(3 * MOST_GROUPS):
        group = f"g{number}" if number % 7 else "x" * (LONGEST_NAME + number)
        t.tell("group_state", group, state="Empty", previous_state="Dead")
        t.tell("rebalance_started", group, cause="member_joined", culprits=[])
        t.committed(group, 1)
        if number % 3:
            t.tell("group_state", group, state="Dead", previous_state="Empty")
        rows = [*t.fold.by_group.values(), t.fold.others]
        sums.append(
            (
                sum(r.commits for r in rows),
                sum(sum(r.rebalances.values()) for r in rows),
            )
        )
        assert len(t.fold.by_group) <= MOST_GROUPS
    assert sums == [(n, n) for n in range(1, len(sums) + 1)]
    assert OTHERS not in t.fold.by_group
