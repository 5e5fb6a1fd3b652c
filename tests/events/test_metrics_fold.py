"""Counters from events: causes, durations, and the places of groups."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.events.bus import Events
from kohort.broker.notice import Notice, Who
from kohort.control.metrics.groups import LONGEST_NAME, MOST_GROUPS, OTHERS, GroupFold

SECOND = 1_000_000_000


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
        self._publish(Notice(kind, group, 1, Who(member), fields))

    def committed(self, group: str, count: int) -> None:
        """Commits this number of offsets."""
        fields = {
            "offsets": (("t",) * count, (0,) * count, (1,) * count, (None,) * count)
        }
        self._publish(
            Notice("offsets_committed", group, 1, Who("m"), fields, 1 + count)
        )

    def _publish(self, notice: Notice) -> None:
        self._stream.of(1).publish(notice, self.now)

    def settled(
        self,
        *,
        outcome: str = "completed",
        pauses: Sequence[tuple[str, int | None, float]] = (),
        unread: Sequence[tuple[str, int, float]] = (),
    ) -> None:
        """The account of a rebalance that began now, and took 5 s.

        Args:
            outcome: how it ended.
            pauses: member, partitions, and seconds.
            unread: cause, partitions, and seconds.
        """
        now = round(self.now * SECOND)
        self.tell(
            "rebalance_account",
            outcome=outcome,
            started_ns=now,
            duration_ns=5 * SECOND,
            pauses=[
                {"member_id": name, "count": count, "ended_by": "synced"}
                | {"since_ns": now, "until_ns": now + round(seconds * SECOND)}
                for name, count, seconds in pauses
            ],
            unread=[
                {"cause": cause, "count": count}
                | {"since_ns": now, "until_ns": now + round(seconds * SECOND)}
                for cause, count, seconds in unread
            ],
        )


def test_pauses_and_partitions_without_a_reader() -> None:
    """Members with partitions pause, by cause; each rebalance adds to the sums."""
    t = Telling()
    t.settled(pauses=[("ana", 3, 2.0), ("new", 0, 2.0), ("from before", None, 1.0)])
    t.settled(unread=[("expired", 4, 10.5), ("paused", 2, 1.0)])
    t.settled(unread=[("paused", 1, 0.5)])
    counts = t.fold.of("g")
    pauses, rebalances = counts.pause_seconds, counts.rebalance_seconds
    assert (sum(pauses.buckets), pauses.total) == (2, 3)
    assert counts.unread_seconds == {"expired": 42, "paused": 2.5}
    assert (sum(rebalances.buckets), rebalances.total) == (3, 15)


def test_what_was_delivered() -> None:
    """Accounts of delivery add up, and so do offsets that went back."""
    t = Telling()
    for received, again in ((7, 2), (3, 0)):
        t.tell(
            "delivery_account",
            received=received,
            again_certain=again,
            again_possible=1,
            skipped=0,
        )
    for cause in ("commit", "admin", "commit"):
        t.tell("offsets_went_back", cause=cause, rewinds=[{}, {}])
    counts = t.fold.of("g")
    t.fold.others.add(counts)
    for each in (counts, t.fold.others):
        assert each.delivery == {
            "received": 10,
            "again_certain": 2,
            "again_possible": 2,
            "skipped": 0,
        }
        assert each.went_back == {"commit": 4, "admin": 2}


def test_rebalances_from_before_are_not_measured() -> None:
    """Their accounts may come later, where the stream remembers them."""
    t = Telling()
    t.fold.since_ns = round((t.now + 1) * SECOND)
    t.settled(pauses=[("ana", 3, 2.0)])
    t.now += 1
    t.settled(pauses=[("ana", 3, 2.0)])
    assert sum(t.fold.of("g").pause_seconds.buckets) == 1


def test_a_rebalance_that_comes_to_nothing_has_no_duration() -> None:
    """All members leave: it began, and that is all."""
    t = Telling()
    t.tell("rebalance_started", cause="member_left", culprits=[])
    t.settled(outcome="emptied")
    counts = t.fold.of("g")
    assert (counts.rebalances, sum(counts.rebalance_seconds.buckets)) == (
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


def test_findings_of_now() -> None:
    """Those that were not withdrawn, by key; a deleted group has none."""
    t = Telling()
    for key, revision, is_withdrawn in (
        ("crash-loop/ana-1", 1, False),
        ("crash-loop/ana-1", 2, False),
        ("crash-loop/ben-1", 1, False),
        ("idle-members", 1, False),
        ("idle-members", 2, True),
    ):
        t.tell(
            "finding",
            finding=key,
            code=key.partition("/")[0],
            revision=revision,
            is_withdrawn=is_withdrawn,
        )
    counts = t.fold.of("g")
    assert [*counts.findings.values()] == ["crash-loop", "crash-loop"]
    t.tell("group_state", state="Dead")
    assert not counts.findings
