"""Folds a stream of events into the groups that a reader of the stream knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]
Parts = set[tuple[str, int]]


def parts(rows: list[dict[str, Any]]) -> Parts:
    """The partitions of rows."""
    return {(row["topic"], p) for row in rows for p in row["partitions"]}


class Known:
    """A group, as events tell it."""

    def __init__(self) -> None:
        self.state = "Dead"
        self.generation = 0
        self.members: list[str] = []
        self.leader: str | None = None
        self.protocol: str | None = None
        self.pending: set[str] = set()
        self.owned: dict[str, Parts] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        # The members of the latest generation.
        self.last: list[str] = []

    def put_in_order(self, members: Sequence[str]) -> None:
        """The members are listed, in an order that follows from their ids."""
        assert sorted(members) == sorted(self.members)
        self.members = [*members]

    def remove(self, member_id: str) -> None:
        """Removes a member; the next event tells its partitions."""
        self.members.remove(member_id)
        if self.leader == member_id:
            self.leader = None


class Fold:
    """All groups, from their events. An event that contradicts an earlier one fails."""

    def __init__(self) -> None:
        self.groups: dict[str, Known] = {}

    def take(self, event: Event) -> None:
        """The next event."""
        if event["group"] is None or event["generation"] is None:
            return  # about no group, or about none that is there
        known = self.groups.setdefault(event["group"], Known())
        known.generation = event["generation"]
        handle = getattr(self, f"_{event['kind']}", None)
        if handle is not None:
            handle(known, event)
        if known.state == "Dead":
            del self.groups[event["group"]]

    def _member_id_given(self, known: Known, event: Event) -> None:
        known.pending.add(event["member_id"])

    def _pending_member_expired(self, known: Known, event: Event) -> None:
        known.pending.remove(event["member_id"])

    def _member_joined(self, known: Known, event: Event) -> None:
        assert (event["member_id"] not in known.members) == event["is_first"]
        assert (event["cause"] == "new") == event["is_first"]
        if event["is_first"]:
            known.pending.discard(event["member_id"])
            known.members.append(event["member_id"])

    def _member_left(self, known: Known, event: Event) -> None:
        if event["was_pending"]:
            known.pending.remove(event["member_id"])
        else:
            known.remove(event["member_id"])

    _member_kicked = _member_left

    def _member_expired(self, known: Known, event: Event) -> None:
        known.remove(event["member_id"])

    def _member_replaced(self, known: Known, event: Event) -> None:
        old, new = event["replaced_member_id"], event["member_id"]
        known.remove(old)
        known.members.append(new)
        known.last = [new if each == old else each for each in known.last]

    def _leader_chosen(self, known: Known, event: Event) -> None:
        assert known.leader in {None, event["previous_leader"]} or (
            event["cause"] == "loaded"
        )
        known.leader = event["member_id"]

    def _group_state(self, known: Known, event: Event) -> None:
        assert event["previous_state"] == known.state
        known.state = event["state"]

    def _rebalance_started(self, known: Known, event: Event) -> None:
        assert event["previous_state"] == known.state
        known.put_in_order(event["members"])
        assert event["member_id"] == (event["culprits"] or [None])[0]

    def _join_completed(self, known: Known, event: Event) -> None:
        known.put_in_order(event["members"])
        assert event["leader"] == known.leader
        assert event["gained"] == [m for m in known.members if m not in known.last]
        assert event["lost"] == [m for m in known.last if m not in known.members]
        for wait in event["waits"]:
            assert 0 <= wait["waited_ns"] <= event["duration_ns"]
            assert not wait["came"] or wait["member_id"] not in known.pending
        known.last = [*known.members]
        known.protocol = event["protocol"]

    def _assignment_made(self, known: Known, event: Event) -> None:
        assert event["leader"] == event["member_id"] == known.leader
        assert event["protocol"] == known.protocol

    def _member_synced(self, known: Known, event: Event) -> None:
        assert event["member_id"] in known.members
        assert event["waited_ns"] >= 0

    def _partitions_changed(self, known: Known, event: Event) -> None:
        before = known.owned.pop(event["member_id"], set())
        gained = parts(event["partitions_gained"])
        lost = parts(event["partitions_lost"])
        owned = parts(event["owned"])
        if event["cause"] != "loaded":
            assert lost <= before
            assert not gained & before
            assert owned == (before | gained) - lost
        if owned:
            known.owned[event["member_id"]] = owned

    def _offsets_committed(self, known: Known, event: Event) -> None:
        for row in event["offsets"]:
            known.offsets[row["topic"], row["partition"]] = row["offset"]

    def _offsets_expired(self, known: Known, event: Event) -> None:
        for key in parts(event["expired"]):
            del known.offsets[key]

    def _offsets_deleted(self, known: Known, event: Event) -> None:
        for key in parts(event["deleted"]):
            del known.offsets[key]

    def _group_loaded(self, known: Known, event: Event) -> None:
        offsets = known.offsets
        known.__init__()  # type: ignore[misc]  # the next event has it
        known.offsets = offsets  # the log has the same members
        known.generation = event["generation"]
        known.state = event["state"]
        known.members = [*event["members"]]
        known.last = [*event["members"]]
        known.leader = event["leader"]
        known.protocol = event["protocol"]
