"""Commands with power over groups, faults and the clock of a broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import serving
from tests.control.shell import At, Shell
from tests.wire.blocking import BlockingClient
from tests.wire.requests import commit_offsets, join_group, sync_group

from kohort.control.remote import Remote
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest
from kohort.protocol.apis.k22_init_producer_id import InitProducerIdRequest
from kohort.protocol.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)


@pytest.fixture(scope="module")
def at() -> Iterator[At]:
    """A cluster of two nodes whose clock stands still."""
    keys = ("group.initial.rebalance.delay.ms=0", "num.partitions=1")
    sets = [f"--set={key}" for key in keys]
    options = "--nodes", "2", "--clock", "manual", "--http", "0"
    with serving(*options, *sets) as broker:
        assert broker.http is not None
        yield {
            "KOHORT_BOOTSTRAP_SERVERS": ",".join(broker.addresses),
            "KOHORT_HTTP": broker.http,
        }


class Member:
    """The one member of a Stable group that no other scene has.

    Attributes:
        group: the id of the group.
        member_id: its member id.
    """

    def __init__(self, client: BlockingClient, group: str) -> None:
        self._client = client
        self.group = group
        self.member_id = ""
        for _ in range(2):  # the first one only gets an id
            join = join_group(group, self.member_id, session_ms=300_000)
            self.member_id = client.call("JoinGroup", 9, join).member_id
        sync = sync_group(self.member_id, group=group)
        assert client.call("SyncGroup", 5, sync).error_code == 0

    def commit(self, topic: str, offset: int) -> None:
        """Commits an offset of the first partition."""
        commit = commit_offsets(
            topic, (0, offset), group=self.group, generation=1, member_id=self.member_id
        )
        self._client.call("OffsetCommit", 7, commit)


@pytest.fixture
def member(there: Shell, at: At) -> Iterator[Member]:
    """A member whose group the first node coordinates."""
    group = f"g{uuid.uuid4().hex[:10]}"
    there.done("group", "move", group, "1")
    address = at["KOHORT_BOOTSTRAP_SERVERS"].partition(",")[0]
    with BlockingClient(int(address.rpartition(":")[2])) as client:
        yield Member(client, group)


def shown(shell: Shell, group: str) -> Any:
    """A group, as JSON."""
    return json.loads(shell.done("group", "show", group, "--json"))


def test_a_group_is_shown(there: Shell, member: Member) -> None:
    """The facts, and a line for each member."""
    there.done("group", "mute", member.group, member.member_id)
    lines = there.done("group", "show", member.group).splitlines()
    assert lines[0] == f"group {member.group}"
    assert [line.split() for line in lines[1:6]] == [
        ["state", "Stable"],
        ["generation", "1"],
        ["coordinator", "node", "1"],
        ["assignor", "range"],
        ["rebalances", "1"],
    ]
    (row,) = [line for line in lines if line.startswith(member.member_id)]
    assert "leader, muted" in row


def test_a_group_is_held_and_released(there: Shell, member: Member) -> None:
    """The command prints the group's state."""
    group = member.group
    assert there.done("group", "hold", group, "PreparingRebalance") == (
        f"group {group} will be held in PreparingRebalance; it is Stable now\n"
    )
    assert there.done("group", "rebalance", group, "--reason", "new") == (
        f"group {group} rebalances; it is PreparingRebalance now\n"
    )
    assert shown(there, group)["held"] == "PreparingRebalance"
    there.done("group", "release", group)
    assert shown(there, group)["held"] is None
    assert "not held" in there.refused("group", "release", group, code=1)


def test_conditions_by_commands(there: Shell, member: Member) -> None:
    """The group is shown once they are met; else the story is printed."""
    group = member.group
    met = "--state", "Stable", "--members", "1", "--rebalances", "1"
    assert "leader" in there.done("group", "until", group, *met)
    there.done("topics", "create", group)
    member.commit(group, 3)
    committed = "--topic", group, "--partition", "0", "--offset", "3"
    found = json.loads(there.done("group", "until", group, *committed, "--json"))
    assert found["group"] == group
    failed = there.run("group", "until", group, "--state", "Empty", "--timeout", "0")
    assert (failed.code, failed.out) == (1, "")
    first, *story = failed.err.splitlines()
    assert first.startswith(
        f"kohort: timed out after 0 s waiting until group '{group}' is Empty"
    )
    assert any("was the first to join" in line for line in story)
    wrong = there.refused("group", "until", group, "--topic", "t", code=1)
    assert wrong.endswith("topic, partition and offset go together")


def test_the_account_of_delivery(there: Shell, name: str) -> None:
    """A group that an admin resets reads its records again: --check exits with 1."""
    there.done("topics", "create", name)
    there.sent(name, b"a\nb\n")
    read = ("consume", name, "--group", name, "--from-beginning", "-qn2")
    there.done(*read)
    account = ("group", "delivery", name, "--check")
    assert there.done(*account) == (
        f"group {name}: 2 records: each delivered once and committed\n"
    )
    reset = ("groups", "reset-offsets", name, "--topic", name, "--to-earliest")
    there.done(*reset, "--execute")
    there.done(*read)
    code, out, _ = there.run(*account)
    sentence, _, _, again, back = out.splitlines()
    assert (code, "2 handled and sent again" in sentence) == (1, True)
    cells = again.split()
    assert cells[:3] == [f"{name}-0", "0-1", "2"]
    assert "sent again, handled before" in again
    assert again.endswith("an admin reset the offset")
    assert back.split()[:4] == [f"{name}-0", "2", "to", "0"]
    found = json.loads(there.done("group", "delivery", name, "--json", "--peek"))
    assert found["again_certain"] == 2


def test_a_wait_is_interrupted(
    there: Shell, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends it with one line, as it ends the commands for any Kafka."""

    def press_ctrl_c(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Remote, "get", press_ctrl_c)
    assert there.refused("group", "until", name, code=1) == "interrupted"


def test_faults_by_commands(there: Shell) -> None:
    """They are added, listed and removed."""
    assert there.done("faults", "list") == "no faults\n"
    keys = ["api=Heartbeat,SyncGroup", "group=5", "delay_ms=1.5", "once=true"]
    made = there.done("faults", "add", *keys)
    number = made.partition(":")[0].removeprefix("fault ")
    assert made == (
        f"fault {number}: api=Heartbeat,SyncGroup group=5 once=true delay_ms=1.5\n"
    )
    never = ["api=Heartbeat", "error=OFFSET_OUT_OF_RANGE", "name=odd"]
    (odd,) = json.loads(there.done("faults", "add", "--json", *never))
    assert odd["name"] == "odd"
    _, *rows = there.done("faults", "list").splitlines()
    assert [row.split()[0] for row in rows] == [number, str(odd["id"])]
    assert "error=OFFSET_OUT_OF_RANGE" in rows[1]
    plan = json.loads(there.done("faults", "list", "--json"))
    assert plan["faults"][0]["group"] == "5"
    removed = there.done("faults", "remove", number)
    assert removed == f"fault {number} is removed; it struck 0 times\n"
    assert "odd" in there.refused("faults", "remove", number, code=1)
    assert there.done("faults", "clear").startswith(f"fault {odd['id']} is removed")
    assert there.done("faults", "clear") == "no faults\n"


PLAN = """
seed = 7
[[fault]]
api = "Heartbeat"
error = "NOT_COORDINATOR"
times = 2
[[fault]]
black_hole = true
client_id = "billing-2"
"""


def test_faults_of_a_plan(there: Shell, tmp_path: Path) -> None:
    """All of them are added, or none if one is wrong."""
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    first, second = there.done("faults", "add", "--file", str(plan)).splitlines()
    assert first.endswith("api=Heartbeat times=2 error=NOT_COORDINATOR")
    assert second.endswith("client_id=billing-2 black_hole=true")
    there.done("faults", "clear")
    plan.write_text(PLAN + "[[fault]]\nswalow = true\n")
    line = there.refused("faults", "add", "--file", str(plan), code=2)
    assert line.startswith(f"{plan}: fault 3: swalow")
    assert there.done("faults", "list") == "no faults\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "KEY=VALUE or --file: one of them must be given"),
        (["swallow"], "'swallow': must be KEY=VALUE"),
        (["swallow=true", "swallow=true"], "swallow: is given twice"),
        (["swallow=true", "nth=soon"], "nth: 'soon' is not a whole number"),
        (["swallow=true", "--file", "x"], "KEY=VALUE or --file: one of them"),
    ],
)
def test_wrong_faults(there: Shell, arguments: list[str], sentence: str) -> None:
    """The line says which key, before a broker is asked."""
    line = there.refused("faults", "add", *arguments, code=2)
    assert line.startswith(sentence)


def test_a_broker_that_is_served_with_faults(shell: Shell, tmp_path: Path) -> None:
    """They are there from the first request on; a wrong plan serves none."""
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    with serving("--http", "0", "--faults", str(plan)) as broker:
        assert broker.http is not None
        shown = shell.done("faults", "list", "--json", "--http", broker.http)
    found = json.loads(shown)
    assert (found["seed"], len(found["faults"])) == (7, 2)
    plan.write_text("[[fault]]\nerror = 'NONE'\n")
    for command in (["serve", "--port", "0"], ["run", "true"]):
        name, *rest = command
        line = shell.refused(name, "--faults", str(plan), *rest, code=2)
        assert line.startswith(f"--faults {plan}: fault 1: error: there is no 'NONE'")


def test_the_clock_by_commands(there: Shell) -> None:
    """It is shown, and moved."""
    before = json.loads(there.done("clock", "show", "--json"))
    assert before["mode"] == "manual"
    assert there.done("clock", "show").endswith("Z (manual)\n")
    there.done("clock", "advance", "45", "--no-credit-heartbeats")
    after = json.loads(there.done("clock", "show", "--json"))
    assert after["now_ns"] - before["now_ns"] == 45 * 10**9
    assert "soon" in there.refused("clock", "advance", "soon", code=2)
    assert "2678400" in there.refused("clock", "advance", "99999999", code=1)


def transact(at: At, transactional_id: str, topic: str) -> None:
    """Begins a transaction with the first partition of a topic."""
    address = at["KOHORT_BOOTSTRAP_SERVERS"].partition(",")[0]
    with BlockingClient(int(address.rpartition(":")[2])) as client:
        wanted = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
        (found,) = client.call("FindCoordinator", 4, wanted).coordinators
    with BlockingClient(found.port) as client:
        init = InitProducerIdRequest(transactional_id, 60_000)
        producer = client.call("InitProducerId", 4, init)
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [0])],
        )
        (row,) = client.call("AddPartitionsToTxn", 3, add).results_by_topic_v3_and_below
        assert row.results_by_partition[0].partition_error_code == 0


def test_transactions_by_commands(name: str, there: Shell, at: At) -> None:
    """Listed by state and age, and described; an unknown one is an error."""
    assert there.done("transactions", "list", "--open", "1").startswith("no such")
    there.done("topics", "create", name, "--partitions", "1")
    transact(at, f"tx-{name}", name)
    there.done("clock", "advance", "20s")
    listed = there.done("transactions", "list", "--state", "ongoing", "--open", "10")
    assert [line.split()[:4] for line in listed.splitlines()] == [
        ["ID", "STATE", "OPEN", "PRODUCER"],
        [f"tx-{name}", "Ongoing", "20.0", "s"],
    ]
    shown = there.done("transactions", "describe", f"tx-{name}").splitlines()
    assert [line.split() for line in shown[:4]] == [
        ["transactional", "id", f"tx-{name}"],
        ["state", "Ongoing"],
        ["open", "for", "20.0", "s"],
        ["timeout", "1", "min"],
    ]
    assert shown[-2].split()[:2] == ["TOPIC", "PARTITION"]
    assert shown[-1].split() == [name, "0", "-", "0", "0"]
    row = json.loads(there.done("transactions", "describe", f"tx-{name}", "--json"))
    assert row["partition_count"] == 1
    assert "no transactional id 'nope'" in there.fails(
        "transactions", "describe", "nope"
    )


def test_a_wait_for_a_transaction(name: str, there: Shell, at: At) -> None:
    """The command returns in the state; a hold is shown meanwhile."""
    one = f"tx-{name}"
    there.done("transaction", "hold", one, "PrepareAbort")
    there.done("topics", "create", name)
    transact(at, one, name)
    there.done("transaction", "expire", one)
    waited = there.done("transaction", "until", one, "--state", "prepareabort")
    assert waited == f"transaction {one} is PrepareAbort\n"
    shown = there.done("transactions", "describe", one)
    assert ["held", "in", "PrepareAbort"] in [
        line.split() for line in shown.split("\n")
    ]
