"""The fastest attacks beside innocent clients, and a proof that the test can fail."""

from __future__ import annotations

import os
import signal

import pytest
from tests.attacks import brokers
from tests.attacks.attack import Attack, Outcome, Program, play
from tests.attacks.consumer_groups import CONSUMER_GROUPS
from tests.attacks.freezing import FREEZING
from tests.attacks.harmless import HARMLESS
from tests.attacks.target import Line, Target

from kohort.protocol.apis import k13_leave_group as leave
from kohort.protocol.apis import k15_describe_groups as describe

pytestmark = pytest.mark.long
QUICKEST = ("zstd-bomb", "metadata-repeated", "lying-counts")
ATTACKS = {each.name: each for each in [*FREEZING, *HARMLESS, *CONSUMER_GROUPS]}


def played(attack: Attack) -> Outcome:
    """The attack on a new broker, with a short measurement before it."""
    with brokers.kohort(attack.config, data=attack.data) as broker:
        return play(attack, broker, quiet_s=0.2, back_s=5.0)


@pytest.mark.parametrize("name", QUICKEST)
def test_the_innocent_notice_no_attack(name: str) -> None:
    """No member is evicted, memory is released, no lost connection stays open."""
    assert played(ATTACKS[name]).found() == []


def test_evictions_and_connections_are_found() -> None:
    """An attack that removes a member and leaves a connection behind is detected."""
    left: list[Line] = []

    def remove(target: Target) -> Program:
        yield
        left.append(Line(target.port))
        request = describe.DescribeGroupsRequest(["innocent"])
        group = target.call("DescribeGroups", 5, request).groups[0]
        member = leave.MemberIdentity(group.members[0].member_id)
        target.call("LeaveGroup", 4, leave.LeaveGroupRequest("innocent", "", [member]))
        return ""

    found = played(Attack("remove", "", remove)).found()
    assert "1 members were evicted" in found
    assert any(each.startswith("the group rebalanced") for each in found)
    assert "1 connections stay open" in found
    left[0].socket.close()


def test_a_death_is_found() -> None:
    """A broker that dies is detected, whatever its clients receive."""
    with brokers.kohort({}) as broker:

        def kill(_target: Target) -> Program:
            yield
            os.kill(broker.pid, signal.SIGKILL)
            return ""

        outcome = play(Attack("kill", "", kill), broker, quiet_s=0.2, back_s=5.0)
    assert outcome.found() == ["the broker died"]
