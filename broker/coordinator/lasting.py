"""Powers over groups that last, and counters: state that outlives a coordinator."""

from __future__ import annotations

from kohort.broker.coordinator.state import GroupState


class Lasting:
    """Powers in force, and counters, by group id.

    All coordinators of a broker share one object: a hold outlives a move of the
    coordinator and a reload of its log, which create the group anew. Holds and limits
    belong to the id: they can be set before the group exists, and outlive its deletion.
    Mutes and counters belong to the group, and are deleted with it.

    Attributes:
        holds: the state in which a group is held.
        max_sizes: a group's limit in place of ``group.max.size``, in members.
        muted: the ids of muted members; never an empty set.
        held_members: the ids of members whose reconciliation is held; likewise.
        rebalances: the number of rebalances that each group has begun.
    """

    __slots__ = ("held_members", "holds", "max_sizes", "muted", "rebalances")

    def __init__(self) -> None:
        self.holds: dict[str, GroupState] = {}
        self.max_sizes: dict[str, int] = {}
        self.muted: dict[str, set[str]] = {}
        self.held_members: dict[str, set[str]] = {}
        self.rebalances: dict[str, int] = {}

    def mute(self, group_id: str, member_id: str) -> None:
        """Notes a member as muted."""
        self.muted.setdefault(group_id, set()).add(member_id)

    def unmute(self, group_id: str, member_id: str) -> None:
        """Forgets that a member is muted."""
        muted = self.muted[group_id]
        muted.discard(member_id)
        if not muted:
            del self.muted[group_id]

    def is_member_held(self, group_id: str, member_id: str) -> bool:
        """Returns whether a hold keeps a member from its target assignment."""
        return member_id in self.held_members.get(group_id, ())

    def hold_member(self, group_id: str, member_id: str) -> None:
        """Holds a member's reconciliation."""
        self.held_members.setdefault(group_id, set()).add(member_id)

    def release_member(self, group_id: str, member_id: str) -> None:
        """Ends such a hold, if there is one."""
        held = self.held_members.get(group_id, set())
        held.discard(member_id)
        if not held:
            self.held_members.pop(group_id, None)

    def count_rebalance(self, group_id: str, by: int = 1) -> None:
        """Counts a rebalance that a group begins; -1 takes it back."""
        self.rebalances[group_id] = self.rebalances.get(group_id, 0) + by

    def forget_groups(self) -> None:
        """Forgets the state of deleted groups, all at once."""
        self.muted.clear()
        self.held_members.clear()
        self.rebalances.clear()
