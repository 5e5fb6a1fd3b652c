"""Scenes with a known cause, and scenes without a problem: exactly these findings.

Each scene is a stream of events as a coordinator makes them. A finding that another
scene's rule would add here is wrong, so all codes are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.events.build import SECOND, Stream
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


@scene("clock-advanced")
def the_clock_ends_the_wait_of_a_newcomer() -> Stream:
    """A first JoinGroup that waits gets no credit: Kafka removes it after 5 min."""
    stream = quiet("ana", "ben")
    stream.comes("cleo")
    stream.starts("member_joined", "cleo")
    began = stream.now
    stream.clock_moves(301, credits_heartbeats=True)
    stream.wait(300)
    stream.expires("cleo", 300, is_connected=True, is_active=True)
    stream.rejoins("ana")
    stream.rejoins("ben")
    stream.joined("all_joined", began)
    stream.divided({})
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


# -- other things that tests do


def command(stream: Stream, cause: str, name: str | None = None, **more: Any) -> None:
    """A command of a test."""
    stream.say("commanded", name, cause=cause, **more)


def strike(stream: Stream, name: str, cause: str, api: str = "Heartbeat") -> None:
    """A fault strikes a request of a member."""
    rule = {"fault_id": 1, "fault": "fault 1", "api": api}
    stream.say("fault_struck", name, cause=cause, **rule)


@scene()
def a_test_kicks_members_and_rebalances() -> Stream:
    """Whatever a command does is its own doing, as often as it may be."""
    stream = quiet("ana", "ben")
    for number in range(5):
        command(stream, "kick", "ana")
        stream.say("member_kicked", "ana", cause="commanded", silent_ns=0)
        stream.members.remove("ana")
        stream.rebalance("member_kicked", "ana")
        stream.say("commit_refused", "ana", error="UNKNOWN_MEMBER_ID", offsets=[])
        stream.comes("ana", connection=number)
        stream.rebalance("member_joined", "ana")
        command(stream, "rebalance")
        stream.rebalance("requested", joins={"ana": 2, "ben": 7})
        stream.wait(5)
    return stream


@scene()
def a_test_mutes_a_member() -> Stream:
    """The end of its session is the command's."""
    stream = quiet("ana", "ben")
    command(stream, "mute", "ana")
    stream.wait(45)
    expire(stream, "ana", cause="commanded", is_connected=True)
    return stream


@scene()
def a_test_holds_a_group() -> Stream:
    """A member that gave up in the hold is not slow, and the leader is not late."""
    stream = quiet("ana", "ben")
    for name in ("cleo", "dora", "eve"):
        command(stream, "hold", held_in="PreparingRebalance")
        stream.comes(name)
        stream.starts("member_joined", name)
        began = stream.now
        stream.wait(20)
        command(stream, "release", held_in="PreparingRebalance")
        for other in ("ana", "ben"):
            stream.rejoins(other)
        stream.joined("all_joined", began)
        stream.divided({})
        stream.wait(30)
    return stream


@scene()
def a_test_limits_a_group() -> Stream:
    """group.max.size is not to be raised."""
    stream = quiet("ana", "ben")
    command(stream, "limit", max_size=2)
    refused = {"cause": "full", "error": "GROUP_MAX_SIZE_REACHED"}
    for _ in range(6):
        stream.say("member_refused", "cleo", host="/h", **refused)
    return stream


@scene("faults-struck")
def heartbeats_are_swallowed() -> Stream:
    """Its session expires in the fault: it did not crash, hang, or pause."""
    stream = quiet("ana", "ben", connected=True)
    for _ in range(15):
        stream.wait(3)
        strike(stream, "ana", "swallow")
    expire(stream, "ana", is_connected=True, is_active=True)
    stream.say("commit_refused", "ana", error="UNKNOWN_MEMBER_ID", offsets=[])
    stream.comes("ana", connection=1)
    stream.rebalance("member_joined", "ana")
    return stream


@scene("faults-struck")
def joins_are_delayed() -> Stream:
    """The member is not slow to rejoin."""
    stream = quiet("ana", "ben", protocol="cooperative-sticky")
    for name in ("cleo", "dora"):
        stream.comes(name)
        stream.starts("member_joined", name)
        began = stream.now
        strike(stream, "ana", "delay", "JoinGroup")
        stream.rejoins("ben")
        stream.wait(12)
        stream.rejoins("ana")
        stream.joined("all_joined", began)
        stream.divided({})
        stream.wait(60)
    return stream


@scene("faults-struck")
def an_answer_to_a_join_is_delayed() -> Stream:
    """The member was heard of until its JoinGroup was answered, and not told."""
    stream = quiet("ana", "ben")
    stream.comes("cleo")
    strike(stream, "ana", "delay", "JoinGroup")
    stream.rebalance("member_joined", "cleo", joins={"ana": 0, "ben": 3})
    stream.wait(45)
    expire(stream, "ana", is_connected=True, is_active=True)
    return stream


# -- sessions


@scene("crashed")
def a_member_is_killed() -> Stream:
    """Its connection is closed with its process."""
    stream = quiet("ana", "ben")
    expire(stream, "ana", is_connected=False, is_active=False)
    return stream


@scene("crashed")
def a_member_is_killed_and_started_again() -> Stream:
    """A crashed process that comes back has crashed, too."""
    stream = quiet("ana", "ben")
    expire(stream, "ana", is_connected=False, is_active=False)
    stream.wait(21)
    stream.comes("ana")
    stream.rebalance("member_joined", "ana")
    return stream


@scene("hung")
def an_event_loop_is_blocked() -> Stream:
    """Nothing of the process is heard, but its connection is open."""
    stream = quiet("ana", "ben", connected=True)
    expire(stream, "ana", is_connected=True, is_active=False)
    stream.wait(10)
    stream.say("commit_refused", "ana", error="UNKNOWN_MEMBER_ID", offsets=[])
    stream.comes("ana", connection=1)
    stream.rebalance("member_joined", "ana")
    return stream


@scene("hung")
def a_heartbeat_thread_has_died() -> Stream:
    """The process goes on to fetch."""
    stream = quiet("ana", "ben")
    expire(stream, "ana", is_connected=True, is_active=True)
    return stream


@scene("hung")
def a_process_is_frozen_again_and_again() -> Stream:
    """SIGSTOP and SIGCONT: no crash loop, and no rolling restart."""
    stream = quiet("ana", "ben", connected=True)
    for number in range(4):
        expire(stream, "ana", is_connected=True, is_active=False)
        stream.wait(10)
        stream.comes("ana", connection=number % 2 * 7 + 1)
        stream.rebalance("member_joined", "ana")
        stream.wait(30)
    return stream


@scene("session-too-short")
def a_network_is_cut_for_a_while() -> Stream:
    """The connection was lost, and the member came back with its old id."""
    stream = quiet("ana", "ben")
    expire(stream, "ana", is_connected=False)
    stream.wait(2)
    stream.say("commit_refused", "ana", error="UNKNOWN_MEMBER_ID", offsets=[])
    return stream


# -- max.poll.interval.ms


def leaves_and_rejoins(stream: Stream, **left: Any) -> Stream:
    """Ana leaves, and rejoins on her connection 10 s later."""
    stream.leaves("ana", **left)
    stream.rebalance("member_left", "ana")
    stream.wait(10)
    stream.comes("ana", connection=1)
    stream.rebalance("member_joined", "ana")
    return stream


@scene("max-poll-interval")
def an_application_does_not_poll() -> Stream:
    """Librdkafka leaves, and rejoins when the application polls again."""
    stream = quiet("ana", "ben", connected=True)
    return leaves_and_rejoins(stream, software="confluent-kafka-python")


@scene("max-poll-interval")
def an_application_does_not_poll_in_a_rebalance() -> Stream:
    """Librdkafka leaves while the group waits for it, and is not back yet."""
    stream = quiet("ana", "ben")
    stream.comes("cleo")
    stream.starts("member_joined", "cleo")
    began = stream.now
    stream.wait(120)
    stream.leaves("ana")
    stream.rejoins("ben")
    waits = [{"member_id": stream.ids["ana"], "waited_ns": 120 * SECOND, "came": False}]
    stream.joined("all_joined", began, waits)
    stream.divided({})
    return stream


@scene()
def a_client_is_closed_in_a_rebalance() -> Stream:
    """The group waits for it for a moment, as for any other."""
    stream = quiet("ana", "ben")
    stream.comes("cleo")
    stream.starts("member_joined", "cleo")
    began = stream.now
    stream.wait(2)
    stream.leaves("ana")
    stream.rejoins("ben")
    waits = [{"member_id": stream.ids["ana"], "waited_ns": 2 * SECOND, "came": False}]
    stream.joined("all_joined", began, waits)
    stream.divided({})
    return stream


@scene()
def a_consumer_of_kafkajs_is_stopped_and_run() -> Stream:
    """It has no limit, and keeps its connection."""
    stream = Stream()
    for number, name in enumerate(("ana", "ben"), 1):
        protocols = ["RoundRobinAssigner"]
        stream.comes(name, connection=number, protocols=protocols)
    stream.rebalance("member_joined", "ana", joins={})
    stream.wait(600)
    return leaves_and_rejoins(stream)


@scene()
def a_consumer_of_sarama_is_closed_and_opened() -> Stream:
    """A client without a limit says its name."""
    return leaves_and_rejoins(quiet("ana", "ben", connected=True), software="sarama")


@scene()
def a_member_that_lived_for_12_s_did_not_wait_for_5_min() -> Stream:
    """Its own time in the group refutes it."""
    stream = Stream()
    for number, name in enumerate(("ana", "ben"), 1):
        stream.comes(name, connection=number)
    stream.rebalance("member_joined", "ana", joins={})
    stream.wait(12)
    return leaves_and_rejoins(stream)


# -- static members


@scene("static-member-gone")
def a_static_member_is_closed_for_good() -> Stream:
    """It does not leave, whatever is closed: that is no crash."""
    stream = quiet("ana", "ben", static=True)
    expire(stream, "ana", is_connected=False)
    return stream


@scene("instance-id-twice")
def a_fenced_member_only_sends_heartbeats() -> Stream:
    """librdkafka: the error is fatal, and the application may not look."""
    stream = quiet("ana", "ben", static=True)
    old = stream.ids["ana"]
    stream.comes_back("ana")
    stream.wait(3)
    fields = {"member_id": old, "error": "FENCED_INSTANCE_ID"}
    stream.say("member_fenced", "ana", **fields)
    return stream


@scene()
def static_members_are_restarted() -> Stream:
    """They take their old places; nothing of the old processes is heard again."""
    stream = quiet("ana", "ben", static=True)
    for name in ("ana", "ben"):
        stream.wait(20)
        stream.comes_back(name)
    return stream


# -- transactions


@scene("offsets-without-member")
def a_transaction_names_no_member() -> Stream:
    """Every client before KIP-447: the coordinator cannot fence a zombie."""
    stream = quiet("ana", "ben")
    for _ in range(3):
        stream.say("offsets_unchecked", producer_id=7, client_id="app")
    return stream


# -- what rebalances wait for


def newcomer_waits(stream: Stream, told_s: float, joined_s: float) -> None:
    """A member comes; ana learns of it, and rejoins, after these times."""
    stream.comes("cleo")
    stream.starts("member_joined", "cleo")
    began = stream.now
    stream.rejoins("ben")
    stream.wait(joined_s)
    stream.rejoins("ana")
    wait = {"member_id": stream.ids["ana"], "waited_ns": stream.now - began}
    told_ns = round(told_s * SECOND)
    stream.joined("all_joined", began, [{**wait, "came": True, "told_ns": told_ns}])
    stream.divided({})
    stream.wait(60)
    stop(stream, "cleo")
    stream.wait(60)


@scene("rare-heartbeats")
def heartbeats_are_rare() -> Stream:
    """It rejoins at once when it learns of the rebalance."""
    stream = quiet("ana", "ben", protocol="cooperative-sticky")
    for _ in range(2):
        newcomer_waits(stream, 12, 12.1)
    return stream


@scene("slow-to-rejoin")
def a_member_is_busy_with_a_batch() -> Stream:
    """It learns of the rebalance in time, and rejoins after its batch."""
    stream = quiet("ana", "ben", protocol="cooperative-sticky")
    for _ in range(2):
        newcomer_waits(stream, 2, 12.1)
    return stream


@scene()
def heartbeats_every_three_seconds() -> Stream:
    """Kafka's default."""
    stream = quiet("ana", "ben", protocol="cooperative-sticky")
    for _ in range(2):
        newcomer_waits(stream, 2.9, 3)
    return stream


@scene("slow-leader")
def the_leader_is_late() -> Stream:
    """All members wait for its assignment."""
    stream = quiet("ana", "ben")
    for name in ("cleo", "dora"):
        stream.comes(name)
        stream.rebalance("member_joined", name, sync_s=4)
        stream.wait(60)
    return stream


@scene()
def a_group_grows() -> Stream:
    """Planned: each newcomer takes its share."""
    stream = quiet("ana", "ben")
    for name in ("cleo", "dora"):
        stream.comes(name)
        stream.rebalance("member_joined", name, joins={"ana": 0.4, "ben": 1.5})
        stream.wait(60)
    return stream


# -- starts and stops


def restart(stream: Stream, name: str, new: str | None = None, **more: Any) -> None:
    """A member leaves, and comes back 8 s later, perhaps under another name."""
    stream.leaves(name)
    stream.rebalance("member_left", name)
    stream.wait(8)
    stream.comes(new or name, **more)
    stream.rebalance("member_joined", new or name)
    stream.wait(30)


def stop(stream: Stream, *names: str) -> None:
    """Members leave, one after the other."""
    for name in names:
        stream.leaves(name)
        stream.rebalance("member_left", name)
        stream.wait(0.2)


@scene()
def one_consumer_is_closed_in_each_test() -> Stream:
    """Each test closes its consumer, and the group is Empty."""
    stream = quiet("ana")
    for _ in range(5):
        stop(stream, "ana")
        stream.wait(1)
        stream.comes("ana")
        stream.rebalance("member_joined", "ana")
        stream.wait(5)
    return stream


@scene()
def all_consumers_are_closed_in_each_test() -> Stream:
    """No member restarted while others went on."""
    stream = quiet("ana", "ben", "cleo")
    for _ in range(4):
        stop(stream, "ana", "ben", "cleo")
        stream.wait(1)
        for name in ("ana", "ben", "cleo"):
            stream.comes(name)
        stream.rebalance("member_joined", "ana", joins={})
        stream.wait(5)
    return stream


@scene()
def a_test_restarts_a_member_twice_and_ends() -> Stream:
    """The end of the test is no third crash."""
    stream = quiet("ana", "ben")
    restart(stream, "ana")
    restart(stream, "ana")
    stop(stream, "ana", "ben")
    return stream


@scene()
def a_group_is_stopped() -> Stream:
    """All members leave, and nobody returns."""
    stream = quiet("ana", "ben", "cleo")
    stop(stream, "ana", "ben", "cleo")
    return stream


def deployment(*names: str, static: bool = False) -> Stream:
    """A group whose members have the names of pods."""
    stream = Stream(protocol="cooperative-sticky")
    for name in names:
        stream.comes(name, name if static else None)
    owned = {name: range(i * 4, i * 4 + 4) for i, name in enumerate(names)}
    stream.rebalance("member_joined", names[0], joins={}, owned=owned)
    stream.wait(600)
    return stream


@scene("renamed-members")
def pods_have_other_names_after_a_restart() -> Stream:
    """A Deployment: each pod has a name of its own."""
    stream = deployment("billing-7d9f-abc", "billing-7d9f-def", "billing-7d9f-ghi")
    restart(stream, "billing-7d9f-abc", "billing-85c4-xyz")
    restart(stream, "billing-7d9f-def", "billing-85c4-uvw")
    return stream


@scene()
def pods_come_back_on_other_hosts() -> Stream:
    """A StatefulSet: each pod keeps its name."""
    stream = deployment("billing-1", "billing-2", "billing-3")
    stop(stream, "billing-1", "billing-2")
    for name in ("billing-1", "billing-2"):
        stream.wait(8)
        stream.comes(name, host=f"/{name}-again")
    return stream


@scene("renamed-members")
def a_new_pod_comes_before_the_old_one_goes() -> Stream:
    """A Deployment with a surge of one."""
    stream = deployment("billing-7d9f-abc", "billing-7d9f-def")
    for old, new in (("abc", "85c4-xyz"), ("def", "85c4-uvw")):
        stream.comes(f"billing-{new}")
        stream.rebalance("member_joined", f"billing-{new}")
        stream.wait(20)
        stream.leaves(f"billing-7d9f-{old}")
        stream.rebalance("member_left", f"billing-7d9f-{old}")
        stream.wait(20)
    return stream


@scene("renamed-members")
def static_members_have_other_ids_after_a_restart() -> Stream:
    """Their old places stay until the sessions expire."""
    stream = deployment("billing-1a2b", "billing-3c4d", static=True)
    for old, new in (
        ("billing-1a2b", "billing-5e6f"),
        ("billing-3c4d", "billing-7a8b"),
    ):
        stream.wait(20)
        stream.comes(new, new)
        stream.rebalance("member_joined", new)
        stream.wait(25)
        expire(stream, old, is_connected=False)
    return stream


@scene()
def a_group_shrinks_and_grows() -> Stream:
    """A member less at night, and one more in the morning."""
    stream = deployment("billing-1", "billing-2", "billing-3")
    stop(stream, "billing-3", "billing-2")
    stream.wait(8 * 3600)
    for name in ("billing-4", "billing-5"):
        stream.comes(name)
        stream.rebalance("member_joined", name)
        stream.wait(60)
    return stream


@scene("visitor")
def somebody_joins_to_debug() -> Stream:
    """A console consumer with the id of the group."""
    stream = deployment("billing-1", "billing-2")
    stream.comes("rdkafka")
    stream.rebalance("member_joined", "rdkafka")
    stream.wait(20)
    stop(stream, "rdkafka")
    return stream


@scene()
def a_member_of_the_service_comes_for_a_while() -> Stream:
    """It has the name of the others."""
    stream = deployment("billing-1", "billing-2")
    stream.comes("billing-3")
    stream.rebalance("member_joined", "billing-3")
    stream.wait(20)
    stop(stream, "billing-3")
    return stream


# -- commits


def commits(stream: Stream, name: str, partition: int) -> None:
    """A member commits a partition of t."""
    row = {"topic": "t", "partition": partition, "offset": 5, "end_offset": 9}
    stream.say("offsets_committed", name, offsets=[row], producer_id=None)


@scene("commit-of-former-owner")
def a_worker_commits_what_its_consumer_has_lost() -> Stream:
    """The generation is the current one, so the broker takes it."""
    stream = quiet("ana", "ben", protocol="cooperative-sticky")
    stream.comes("cleo")
    owned = {"ana": [0, 1, 2], "ben": range(4, 7), "cleo": [3, 7]}
    stream.rebalance("member_joined", "cleo", owned=owned)
    commits(stream, "ana", 3)
    return stream


@scene()
def members_commit_their_own_partitions() -> Stream:
    """And one that was given up, and has no owner yet (KIP-429)."""
    stream = quiet("ana", "ben", protocol="cooperative-sticky")
    commits(stream, "ana", 3)
    stream.comes("cleo")
    owned = {"ana": [0, 1, 2], "ben": range(4, 7), "cleo": []}
    stream.rebalance("member_joined", "cleo", owned=owned)
    commits(stream, "ana", 3)
    commits(stream, "ben", 4)
    return stream


# -- assignments


def divided(protocol: str, *shares: str) -> Stream:
    """A group whose members have these topics, with a partition each."""
    stream = Stream(protocol=protocol)
    names = ("ana", "ben", "cleo")[: len(shares)]
    for name in names:
        stream.comes(name, topics=["t", "u", "v"])
    stream.starts("member_joined", "ana")
    began = stream.now
    stream.joined("all_joined", began)
    for name, topics in zip(names, shares, strict=True):
        owned = [{"topic": topic, "partitions": [0]} for topic in topics]
        changed = {"owned": owned, "partitions_gained": owned, "partitions_lost": []}
        stream.say("partitions_changed", name, cause="assigned", **changed)
    stream.divided({})
    return stream


@scene("one-has-all")
def range_with_topics_of_one_partition() -> Stream:
    """The first member gets them all."""
    return divided("range", "tuv", "", "")


@scene()
def roundrobin_with_topics_of_one_partition() -> Stream:
    """Each member has one."""
    return divided("roundrobin", "t", "u", "v")


@scene()
def partitions_do_not_divide() -> Stream:
    """One more or less is as good as it gets."""
    return divided("roundrobin", "tv", "u")


@pytest.mark.parametrize("name", SCENES)
def test_a_scene(name: str) -> None:
    """Exactly the findings of its cause."""
    play, codes = SCENES[name]
    found = history(play().events, "g")
    assert [each.code for each in found.findings] == codes, found.text()
