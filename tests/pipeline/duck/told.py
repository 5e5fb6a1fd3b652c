"""What happens to groups, a scene for each kind of table: numbers are known by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

S = 1_000_000_000
BEGIN = 1_748_822_400 * S
"""2025-06-02 00:00 UTC."""

Row = Mapping[str, Any]
Parts = Sequence[int]


class Scene:
    """Events of one group, in order; a member's id is its name unless it says so."""

    numbers: ClassVar[Counter[tuple[str, int]]] = Counter()
    events: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, group: str | None, run: str = "r", **labels: str) -> None:
        self.group = group
        self.run = run
        self.labels = labels
        self.node = 1

    def say(
        self, at_s: float, kind: str, member: str | None = None, **fields: Any
    ) -> None:
        """An event, so many seconds after the beginning."""
        self.numbers[self.run, self.node] += 1
        time_ns = BEGIN + round(at_s * S)
        self.events.append(
            {
                "schema": 1,
                "run": self.run,
                "labels": self.labels,
                "node": self.node,
                "sequence": self.numbers[self.run, self.node],
                "kind": kind,
                "time_ns": time_ns,
                "wall_ns": time_ns,
                "group": self.group,
                "member_id": member,
                **fields,
            }
        )

    def comes(self, at_s: float, member: str, **fields: Any) -> None:
        """A newcomer joins."""
        usual = {"cause": "new", "is_first": True, "protocols": ["range"]}
        offer = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 60_000}
        self.say(at_s, "member_joined", member, **{**usual, **offer, **fields})

    def rejoins(self, at_s: float, *members: str, cause: str = "rejoin") -> None:
        """Members join again."""
        for member in members:
            self.say(at_s, "member_joined", member, cause=cause, is_first=False)

    def starts(
        self, at_s: float, cause: str, culprit: str | None, *members: str, **more: Any
    ) -> None:
        """A rebalance starts."""
        culprits = [] if culprit is None else [culprit]
        fields = {"cause": cause, "culprits": culprits, "members": [*members]}
        self.say(at_s, "rebalance_started", culprit, **fields, **more)

    def joined(self, at_s: float, generation: int, *members: str, **more: Any) -> None:
        """The join phase is over."""
        fields = {"cause": "all_joined", "members": [*members], "waits": []}
        self.say(at_s, "join_completed", generation=generation, **{**fields, **more})

    def divided(
        self,
        at_s: float,
        owned: Mapping[str, tuple[Parts, Parts, Parts]],
        size: int = 10,
    ) -> None:
        """The leader has divided: what each has now, what it gained, what it lost."""
        self.say(
            at_s, "assignment_made", bytes=size, metadata_bytes=size, duration_ns=0
        )
        for member, lists in owned.items():
            self.owns(at_s, member, "assigned", *lists)
        for member in owned:
            self.say(at_s, "member_synced", member, waited_ns=0)

    def owns(
        self,
        at_s: float,
        member: str,
        cause: str,
        owned: Parts,
        gained: Parts = (),
        lost: Parts = (),
    ) -> None:
        """A member's partitions of the topic t change."""
        names = ("owned", "partitions_gained", "partitions_lost")
        lists = {
            name: [{"topic": "t", "partitions": [*numbers]}] if numbers else []
            for name, numbers in zip(names, (owned, gained, lost), strict=True)
        }
        self.say(at_s, "partitions_changed", member, cause=cause, **lists)

    def goes(self, at_s: float, member: str, kind: str, **fields: Any) -> None:
        """A member is gone."""
        self.say(at_s, kind, member, **{"was_pending": False, **fields})

    def commits(
        self,
        at_s: float,
        member: str | None,
        *offsets: tuple[int, int] | tuple[int, int, int | None],
        error: str | None = None,
    ) -> None:
        """An OffsetCommit of (partition, offset, perhaps the log's end)."""
        made = [
            {
                "topic": "t",
                "partition": row[0],
                "offset": row[1],
                "end_offset": row[2] if len(row) > 2 else None,
            }
            for row in offsets
        ]
        kind = "offsets_committed" if error is None else "commit_refused"
        self.say(at_s, kind, member, offsets=made, error=error)


# -- the scenes


def outcomes() -> None:
    """Five rebalances, each with another end; the last one is open."""
    g = Scene("outcomes")
    g.comes(0, "a", instance_id="i")
    g.starts(0, "member_joined", "a", "a", instance_id="i")
    waits = [
        {"member_id": "z", "waited_ns": 5, "came": True},
        {"member_id": "b", "waited_ns": 5, "came": False},
        {"member_id": "a", "waited_ns": 4, "came": True},
    ]
    g.joined(1, 1, "a", waits=waits, duration_ns=S)
    g.divided(3, {"a": ([], [], [])})
    g.starts(4, "member_joined", "b", "a", "b", client_id="ben")
    g.joined(5, 2, "a", "b")
    g.starts(6, "member_left", "b", "a")
    g.node = 2
    g.say(7, "group_loaded", members=["a", "b"])
    g.starts(8, "session_expired", "b", "a")
    g.joined(9, 3, cause="nobody_left")
    g.starts(10, "sync_timeout", None)


def lives() -> None:
    """Who left, was replaced, was brought back, was forgotten, or only had an id."""
    g = Scene("lives")
    g.say(0, "member_id_given", "pending")
    g.goes(1, "pending", "member_left", was_pending=True, cause="left")
    g.comes(1, "c", client_id="cleo", protocols=["cooperative-sticky", "stream"])
    g.goes(2, "c", "member_left", cause="removed", reason="why not")
    g.say(3, "group_loaded", members=["c", "old"])
    g.say(4, "member_joined", "old", is_first=False, protocols=["stream", "range"])
    g.say(
        5,
        "member_replaced",
        "new",
        replaced_member_id="old",
        instance_id="i",
        protocols=["range"],
    )
    g.comes(6, "x")
    g.goes(7, "x", "member_left", cause="left")
    g.say(8, "group_loaded", members=["x"])
    g.goes(9, "x", "member_expired", silent_ns=2 * S)
    g.goes(10, "y", "member_kicked", cause="full")
    g.say(20, "group_state")


def ownership() -> None:
    """Partition 0 goes from a, which crashes, to b; 1 from a, which does not, to b."""
    g = Scene("owned")
    g.comes(0, "a")
    g.comes(0, "b")
    g.starts(0, "member_joined", "a", "a", "b")
    g.joined(0, 1, "a", "b")
    g.divided(1, {"a": ([0, 1], [0, 1], []), "b": ([], [], [])})
    g.starts(2, "member_left", None, "a", "b")
    g.joined(2, 2, "a", "b")
    # What moves is gained before it is lost: all at one moment.
    g.divided(3, {"b": ([1], [1], []), "a": ([0], [], [1])})
    g.goes(10, "a", "member_expired", silent_ns=4 * S)
    g.owns(10, "a", "gone", [], [], [0])
    g.starts(10, "session_expired", "a", "b")
    g.joined(11, 3, "b")
    g.divided(12, {"b": ([0, 1], [0], [])})
    g.say(13, "group_loaded", members=["b"])
    g.owns(13, "b", "loaded", [0, 1, 2])


def still() -> None:
    """Eager members stand still, from their first join on; others do not."""
    g = Scene("still")
    g.comes(0, "a")
    g.comes(0, "co", protocols=["cooperative-sticky"])
    g.comes(0, "new")
    g.starts(0, "member_joined", "a", "a", "co", "new")
    g.joined(0, 1, "a", "co", "new")
    g.divided(0, {"a": ([0], [0], []), "co": ([1], [1], [])})
    # Its assignment was made, and it was never told: it had nothing.
    g.owns(0, "new", "assigned", [2], [2])
    g.rejoins(5, "a", cause="repeated")
    g.starts(6, "member_joined", "x", "a", "co", "new")
    g.rejoins(10, "a", "co", "new")
    g.rejoins(12, "a", cause="metadata_changed")
    g.say(14, "member_synced", "a")
    g.rejoins(20, "a")
    g.goes(23, "a", "member_expired", silent_ns=S)
    g.comes(30, "s1", instance_id="i")
    g.owns(30, "s1", "assigned", [3], [3])
    g.say(30, "member_synced", "s1")
    g.joined(31, 2, "s1")
    offer = {"instance_id": "i", "protocols": ["range"]}
    g.say(32, "member_replaced", "s2", replaced_member_id="s1", **offer)
    g.owns(32, "s1", "replaced", [], [], [3])
    g.owns(32, "s2", "replaced", [3], [3], [])
    g.say(33, "member_replaced", "s3", replaced_member_id="s2", **offer)
    g.owns(33, "s2", "replaced", [], [], [3])
    g.owns(33, "s3", "replaced", [3], [3], [])
    g.starts(33, "static_member_replaced", "s3", "s3")
    g.say(35, "member_replaced", "s4", replaced_member_id="s3", **offer)
    g.owns(35, "s3", "replaced", [], [], [3])
    g.owns(35, "s4", "replaced", [3], [3], [])


def processing() -> None:
    """Records that were processed twice, and some that were not."""
    g = Scene("twice")
    g.commits(0, "a", (0, 100), (1, 5))
    g.commits(1, "a", (0, 180), error="ILLEGAL_GENERATION")
    g.commits(1, None, (0, 170), error="UNKNOWN_MEMBER_ID")
    g.commits(2, "b", (0, 150), (1, 5))  # 50 of what a had processed
    g.commits(3, "b", (0, 500), error="REBALANCE_IN_PROGRESS")
    g.commits(4, "b", (0, 500))  # its own
    g.commits(5, "b", (0, 420))  # 80 back
    g.commits(6, "", (0, 400))  # an admin's
    g.commits(7, None, error="UNKNOWN_MEMBER_ID")


def refused() -> None:
    """Two that found the group full, one was kicked for it, one was fenced."""
    g = Scene("refused")
    full = {"cause": "full", "error": "GROUP_MAX_SIZE_REACHED"}
    g.say(0, "member_refused", None, client_id="x", **full)
    g.say(1, "member_refused", None, client_id="x", **full)
    g.goes(2, "k", "member_kicked", cause="group_over_max_size")
    g.goes(2, "l", "member_kicked", cause="did_not_join_in_time")
    g.say(3, "member_refused", "f", cause="fenced", error="FENCED_INSTANCE_ID")


def moving() -> None:
    """Ranges of nine partitions: from two members to three."""
    g = Scene("moving")
    for name in "abc":
        g.comes(0, name)
    g.starts(0, "member_joined", "a", "a", "b")
    g.joined(0, 1, "a", "b")
    first, second = range(5), range(5, 9)
    g.divided(0, {"a": (first, first, []), "b": (second, second, [])})
    g.starts(1, "member_joined", "c", "a", "b", "c")
    g.joined(1, 2, "a", "b", "c")
    thirds = ([0, 1, 2], [3, 4, 5], [6, 7, 8])
    g.divided(
        1,
        {
            "a": (thirds[0], [], [3, 4]),
            "b": (thirds[1], [3, 4], [6, 7, 8]),
            "c": (thirds[2], [6, 7, 8], []),
        },
    )
    g.starts(2, "leader_rejoined", "a", "a", "b", "c")
    g.joined(2, 3, "a", "b", "c")
    g.divided(2, {})


def lagging() -> None:
    """A lag of 30 grows to 100 in a rebalance, and is worked off 6 s after it."""
    g = Scene("lagging")
    g.commits(0, "a", (0, 90, 100))
    g.commits(1, "b", (1, 80, 100))
    g.starts(2, "member_joined", "c", "a", "b")
    g.commits(3, "a", (0, 100, 180))  # 80 + 20
    g.joined(4, 1, "a", "b")
    g.divided(4, {})
    g.commits(5, "b", (1, 200, None))  # says nothing
    g.commits(6, "a", (0, 200, 200))  # 0 + 20
    g.commits(7, "b", (1, 300, 200))  # 0, and not less
    g.starts(8, "member_left", "c", "a", "b")
    g.joined(8, 2, "a", "b")
    g.divided(9, {})
    g.starts(10, "member_left", "c", "a", "b")
    g.joined(10, 3, "a", "b")
    g.divided(11, {})
    g.commits(12, "b", (1, 300, 310))
    g.say(13, "group_state")


def storms() -> None:
    """Bursts of 5 and 5, far apart; and 6 of which 5 that follow are within 60 s."""
    g = Scene("stormy")
    times = [*range(5), *range(1000, 1005), 2000, 2010, 2020, 2030, 2060, 2070, 2071]
    for i, at_s in enumerate(times):
        cause = "member_joined" if i % 2 else "member_left"
        g.starts(at_s, cause, f"m{i}", client_id=("x", "y", None)[i % 3])


def days() -> None:
    """A member is there for an hour and a half, and stands still over the full hour."""
    g = Scene("days")
    g.comes(1800, "a")
    g.starts(1800, "member_joined", "a", "a")
    g.joined(1801, 1, "a")
    g.divided(1802, {"a": ([0], [0], [])}, size=100)
    for at_s, took_s in ((1900, 1), (2000, 3), (3590, 30)):
        g.starts(at_s, "leader_rejoined", "a", "a")
        g.rejoins(at_s, "a")
        g.joined(at_s, 2, "a", waits=[{"member_id": "a", "waited_ns": 7, "came": True}])
        g.divided(at_s + took_s, {"a": ([0], [], [])}, size=50)
    g.goes(7200, "a", "member_left", cause="left")
    g.say(11_000, "group_state")
    Scene(None).say(20_000, "node_stopped")


def delays() -> None:
    """The same seed with the delay and without; another seed has no partner."""
    key = "group.initial.rebalance.delay.ms"
    for run, seed, delay, times in (
        ("with", "1", "3000", [5]),
        ("without", "1", "0", [1, 2, 4]),
        ("other", "2", "0", [1]),
    ):
        g = Scene("d", run, scenario="s", seed=seed, **{key: delay})
        g.comes(0, "a")
        for at_s in times:
            g.starts(at_s - 1, "member_joined", "a", "a")
            g.joined(at_s - 1, 1, "a")
            g.divided(at_s, {"a": ([], [], [])})
        Scene(f"only-{run}", run).say(9, "group_state")


SCENES = (
    *(outcomes, lives, ownership, still, processing, refused),
    *(moving, lagging, storms, days, delays),
)
