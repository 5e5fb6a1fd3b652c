"""Scenes with a known cause, and scenes without a problem: exactly these findings.

Each scene is a stream of events as a coordinator makes them. A finding that another
scene's rule would add here is wrong, so all codes are compared.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.events.build import Stream
from tests.events.findings import quiet

from kohort.control.why import history

Scene = Callable[[], Stream]
SCENES: dict[str, tuple[Scene, list[str]]] = {}


def scene(*codes: str) -> Callable[[Scene], Scene]:
    """Adds a scene with the codes of its findings, in order."""

    def add(play: Scene) -> Scene:
        SCENES[play.__name__] = play, [*codes]
        return play

    return add


def expire(stream: Stream, name: str, silent_s: float = 45, **fields: object) -> None:
    """A member's session expires, and the group rebalances without it."""
    stream.expires(name, silent_s, **fields)
    stream.rebalance("session_expired", name)


# -- the clock


@scene("clock-advanced")
def the_clock_ends_a_session() -> Stream:
    """46 s without credit: no crash, no pause of a client."""
    stream = quiet("ana", "ben")
    stream.clock_moves(46)
    stream.wait(45)
    expire(stream, "ana", is_connected=True)
    return stream


@scene("clock-advanced")
def the_clock_ends_a_session_and_the_member_rejoins() -> Stream:
    """Its commit and its return are consequences of the advance."""
    stream = quiet("ana", "ben", connected=True)
    stream.clock_moves(46)
    stream.wait(45)
    expire(stream, "ana", is_connected=True)
    stream.wait(1)
    stream.say("commit_refused", "ana", error="UNKNOWN_MEMBER_ID", offsets=[])
    stream.comes("ana", connection=1)
    stream.rebalance("member_joined", "ana")
    return stream


@scene()
def the_clock_skips_the_initial_delay() -> Stream:
    """An advance without a consequence needs no word."""
    stream = Stream()
    stream.comes("ana")
    stream.clock_moves(3, credits_heartbeats=True)
    stream.rebalance("member_joined", "ana", joins={}, window_s=3)
    return stream


@scene("crashed")
def the_clock_shortens_the_wait_for_a_crashed_member() -> Stream:
    """Its process was gone before: the clock ends only the wait."""
    stream = quiet("ana", "ben")
    stream.clock_moves(46, credits_heartbeats=True)
    stream.wait(45)
    expire(stream, "ana", is_connected=False)
    return stream


@scene()
def the_clock_ends_a_rebalance() -> Stream:
    """The member had no time to rejoin: max.poll.interval.ms is not to blame."""
    stream = quiet("ana", "ben")
    stream.comes("cleo")
    stream.starts("member_joined", "cleo")
    began = stream.now
    stream.clock_moves(300, credits_heartbeats=True)
    stream.rejoins("ana")
    stream.wait(300)
    stream.say("member_kicked", "ben", cause="did_not_join_in_time", silent_ns=0)
    stream.members.remove("ben")
    stream.joined("rebalance_timeout", began)
    stream.divided({})
    return stream


@pytest.mark.parametrize("name", SCENES)
def test_a_scene(name: str) -> None:
    """Exactly the findings of its cause."""
    play, codes = SCENES[name]
    found = history(play().events, "g")
    assert [each.code for each in found.findings] == codes, found.text()
