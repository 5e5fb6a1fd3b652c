"""Builds groups that need a setting, or just fail to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.pipeline.silver_rows import Scenes

from kohort.pipeline.gold.initial_delay import DELAY

POLL = "consumer poll timeout has expired."

Scene = Callable[["Group"], None]
Told = dict[str, dict[str, Any]]
"""Expected suggestions of a scene: some columns of each row, by rule."""
Named = dict[str, tuple[Scene, Told]]
"""Scenes by name."""


class Group:
    """A group of the run ``r``, with a method for each thing that can happen to it."""

    def __init__(self, s: Scenes, name: str) -> None:
        """Starts without rebalances."""
        self.s = s
        self.name = name
        self.number = 0

    @property
    def at(self) -> tuple[str, str]:
        """The run and the group of the scene's rows."""
        return ("r", self.name)

    def rebalance(
        self, at: float, still: float = 0, took: float = 1, **more: Any
    ) -> int:
        """Adds a rebalance in which a member with one partition pauses."""
        self.number += 1
        more = {"unread_s": still} | more
        self.s.rebalance(*self.at, self.number, at, took, **more)
        if still:
            until = at + still
            self.s.pause(*self.at, "somebody", at, until, self.number)
            row: dict[str, Any] = {"cause": "paused", "number": self.number}
            self.s.unread(*self.at, "somebody", at, until, **row)
        return self.number

    def goes(self, who: str, at: float, cause: str = "member_left") -> None:
        """A member leaves; the rebalance pauses one member for 2 s."""
        self.rebalance(at, 2, cause=cause, culprits=[who])

    def comes(self, who: str, at: float, **more: Any) -> None:
        """A new member joins; the rebalance pauses one member for 2 s."""
        self.s.member(*self.at, who, at, **more)
        self.rebalance(at, 2, cause="member_joined", culprits=[who])

    def back(
        self,
        n: int,
        at: float,
        since: float,
        how: str = "left",
        *,
        is_restart: bool = True,
        **more: Any,
    ) -> None:
        """The process of a silent member joins as a new member."""
        new, old = f"new{n}", f"old{n}"
        self.comes(new, at, **{"client_id": f"c{n}"} | more)
        self.s.add(
            "silver/returns",
            run="r",
            group=self.name,
            number=self.number,
            member_id=new,
            owner=new,
            name=f"c{n}",
            previous_id=old,
            how=how,
            from_s=since,
            until_s=at,
            away_s=at - since,
            is_restart=is_restart,
        )

    def was_there(self, who: str, until: float | None, **more: Any) -> None:
        """Adds a member that joined before the recording."""
        self.s.member(*self.at, who, 0, until, is_start_known=False, **more)

    def restart(self, n: int, *, is_restart: bool = True, **more: Any) -> None:
        """A member leaves and returns after 20 s; each causes a rebalance."""
        at = 1000.0 + 500 * n
        same = {"client_id": f"c{n}"} | more
        self.was_there(f"old{n}", at, **same)
        self.goes(f"old{n}", at)
        self.back(n, at + 20, at, is_restart=is_restart, **same)

    def expires(
        self,
        n: int,
        at: float,
        silent: float = 45,
        unread: float | None = None,
        **more: Any,
    ) -> None:
        """A member expires; its two partitions were unread for some time."""
        same = {"client_id": f"c{n}", "session_timeout_ms": int(silent * 1000)} | more
        self.was_there(f"old{n}", at, how="expired", silent_s=silent, **same)
        self.goes(f"old{n}", at, "session_expired")
        if unread:
            began = at - silent
            row: dict[str, Any] = {"partitions": 2, "number": self.number}
            self.s.unread(*self.at, f"old{n}", began, began + unread, **row)
            self.was_there(f"reader{n}", None)

    def moves(
        self, still: float, owned: int, moved: int, least: int, **more: Any
    ) -> None:
        """Adds a rebalance that moves partitions."""
        number = self.rebalance(1000 * (self.number + 1), still, **more)
        self.s.add(
            "silver/moves",
            run="r",
            group=self.name,
            number=number,
            started_s=0,
            members=2,
            owned=owned,
            moved=moved,
            least_moved=least,
            first_owned=0,
        )

    def refused(self, cause: str, at: float, **more: Any) -> None:
        """Adds a refused join."""
        values = {"cause": cause, "time_s": at} | more
        self.s.add("silver/refusals", run="r", group=self.name, **values)

    def twice(self, sequence: int, reason: str = "commit_refused") -> None:
        """Adds records that were sent again."""
        self.s.add(
            "silver/delivery",
            run="r",
            group=self.name,
            node=0,
            sequence=sequence,
            time_s=1,
            what="again_certain",
            reason=reason,
            records=10,
        )


def into(scenes: Named, **told: dict[str, Any]) -> Callable[[Scene], Scene]:
    """Adds a scene with its expected suggestions; rule names take underscores."""

    def known(play: Scene) -> Scene:
        by_rule = {rule.replace("_", "-"): row for rule, row in told.items()}
        scenes[play.__name__.replace("_", " ")] = (play, by_rule)
        return play

    return known


# -- the same seed


def played(s: Scenes) -> None:
    """Two seeds with delays of 0, 1000 and 3000 ms: 5, 3 and 1 rebalances.

    The scenario ``useless`` has 5 rebalances with and without the delay. Without the
    pairs, the events would have suggested a different value in both cases.
    """
    for scenario, seed, delay, rebalances in (
        ("start", "1", 0, 5),
        ("start", "1", 1000, 3),
        ("start", "1", 3000, 1),
        ("start", "2", 0, 5),
        ("start", "2", 3000, 1),
        ("useless", "1", 0, 5),
        ("useless", "1", 3000, 5),
    ):
        run = f"{scenario} {seed} {delay}"
        s.run(run, 1000, scenario=scenario, seed=seed, **{DELAY: str(delay)})
        s.event(run, "g", 1, "group_state")
        for number in range(1, rebalances + 1):
            at = 10.0 + 2 * number
            s.member(run, "g", f"m{number}", at)
            state = "Empty" if number == 1 else "Stable"
            who = [f"m{number}"]
            s.rebalance(run, "g", number, at, previous_state=state, culprits=who)
            s.unread(run, "g", "m1", at, at + 1, cause="paused", number=number)
