"""Each declared verb is at each door, with all of its parameters."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.control.shell import Shell

from kohort.control import remote
from kohort.control.clock_verbs import ClockVerbs
from kohort.control.cluster_verbs import ClusterVerbs, NodeVerbs, PartitionVerbs
from kohort.control.group_verbs import GroupVerbs
from kohort.control.http.operations import Nothing
from kohort.control.http.verb_routes import verb_operations
from kohort.control.transaction_verbs import TransactionVerbs
from kohort.control.verbs import CoordinatedVerbs, Field, Verb, Verbs, fields
from kohort.testing.clock import Clock
from kohort.testing.group import Group, GroupMember
from kohort.testing.kohort import Kohort
from kohort.testing.transaction import Transaction

COMMANDS: dict[type[Verbs], tuple[str, list[str]]] = {
    GroupVerbs: ("group", ["a/b"]),
    TransactionVerbs: ("transaction", ["tx 1"]),
    ClusterVerbs: ("cluster", []),
    NodeVerbs: ("cluster", ["2"]),
    PartitionVerbs: ("cluster", ["orders", "3"]),
    ClockVerbs: ("clock", []),
}
"""The command of each class, and the things that its verbs are about."""
VERBS = [(verbs, verb) for verbs in COMMANDS for verb in verbs.all()]
IDS = [f"{verbs.what}-{verb.name}" for verbs, verb in VERBS]
ANSWER = {
    "group": "a/b",
    "transactional_id": "tx 1",
    "state": "Stable",
    "held": "PreparingRebalance",
    "max_size": 2,
    "coordinator": 2,
    "cluster_id": "c",
    "node": 2,
    "topic": "orders",
    "partition": 3,
    "fired": 1,
}
"""The fields of all answers, for the sentences."""


def value(field: Field) -> Any:
    """A valid value of a parameter, and not its default."""
    match field.bound:
        case tuple() as choices:
            return choices[-1]
        case range():
            return 2
        case None:
            return not field.default
    return "so slow"


def given(verb: Verb) -> list[dict[str, Any]]:
    """Parameters, in calls which together have each of them."""
    declared = [*fields(verb.do)]
    alternatives = [each for each in declared if each.is_alternative]
    others = {each.name: value(each) for each in declared if each not in alternatives}
    return [{each.name: "billing-1", **others} for each in alternatives] or [others]


def words(verb: Verb, call: dict[str, Any]) -> list[str]:
    """The arguments of a command for these parameters."""
    found: list[str] = []
    for each in fields(verb.do):
        if each.name not in call:
            continue
        said = each.name.replace("_", "-")
        if each.kind is bool:
            found.append(f"--{'' if call[each.name] else 'no-'}{said}")
        elif each.name == "reason" or each.name.endswith("_id"):
            found += [f"--{said}", call[each.name]]
        else:
            found.append(str(call[each.name]))
    return found


class Thing:
    """Stands for the thing, whose verbs are replaced."""

    def describe(self) -> dict[str, Any]:
        """The answer of verbs on a group or a transactional id."""
        return ANSWER


Posted = list[tuple[tuple[str, ...], dict[str, Any]]]


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> Posted:
    """The requests that commands send, which `ANSWER` answers."""
    found: Posted = []

    def post(*path: str, **body: Any) -> dict[str, Any]:
        found.append((path, body))
        return ANSWER

    @contextlib.contextmanager
    def reached(*_: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(post=post)

    monkeypatch.setattr(remote, "reached", reached)
    return found


def test_the_table_has_each_class() -> None:
    """A class of verbs that is added must be here."""
    leaves = {*Verbs.__subclasses__(), *CoordinatedVerbs.__subclasses__()}
    assert COMMANDS.keys() == leaves - {CoordinatedVerbs}


@pytest.mark.parametrize(("verbs", "verb"), VERBS, ids=IDS)
async def test_commands_and_operations(
    verbs: type[Verbs],
    verb: Verb,
    shell: Shell,
    posted: Posted,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command sends each parameter; the operation gives it to the method."""
    calls: list[dict[str, Any]] = []

    @functools.wraps(verb.do)
    def note(_: object, **call: Any) -> dict[str, Any]:
        calls.append(call)
        return ANSWER

    answers = dict[str, Any] if issubclass(verbs, CoordinatedVerbs) else None
    with monkeypatch.context() as patch:
        patch.setattr(verbs, "all", lambda: [Verb(note, verb.done)])
        thing = Thing()
        (operation,) = verb_operations(verbs, Nothing, lambda _: thing, answer=answers)
    assert operation.path == f"/v1/{verbs.path}/{verb.name}"
    command, things = COMMANDS[verbs]
    names = dict(zip(verbs.names, things, strict=True))
    path = [each.format(**names) for each in verbs.path.split("/")]
    for call in given(verb):
        name = verb.name.replace("_", "-")
        line = [command, name, *things, *words(verb, call)]
        sentence = shell.done(*line)
        assert all(thing in sentence for thing in things)
        assert json.loads(shell.done(*line, "--json")) == ANSWER
        assert posted == [(("v1", *path, verb.name), call)] * 2
        posted.clear()
        body = msgspec.convert(call, operation.types.body)
        assert await operation.handler(Nothing(), body) == ANSWER
        assert calls == [call]
        calls.clear()


HANDLES: dict[type[Verbs], tuple[type, str]] = {
    GroupVerbs: (Group, "{}"),
    TransactionVerbs: (Transaction, "{}"),
    ClusterVerbs: (Kohort, "{}"),
    NodeVerbs: (Kohort, "{}_node"),
    ClockVerbs: (Clock, "{}"),
}
"""The plugin's handle of a class, and the names of its methods."""


@pytest.mark.parametrize(
    ("verbs", "verb"), [each for each in VERBS if each[0] in HANDLES]
)
def test_handles(verbs: type[Verbs], verb: Verb) -> None:
    """The plugin has a method for each verb, with its parameters."""
    handle, name = HANDLES[verbs]
    method = getattr(handle, name.format(verb.name))
    has = inspect.signature(method).parameters
    of_members = any(each.is_alternative for each in fields(verb.do))
    if of_members:
        assert inspect.signature(verb.do).parameters.keys() == has.keys()
        assert hasattr(GroupMember, verb.name)
    else:
        assert {each.name for each in fields(verb.do)} <= has.keys()
    if issubclass(verbs, CoordinatedVerbs):
        assert method.__doc__ == verb.do.__doc__


def test_none_is_a_value(shell: Shell, posted: Posted) -> None:
    """Where a number must be given; another word is an error of usage."""
    shell.done("group", "limit", "billing", "none")
    assert posted == [(("v1", "groups", "billing", "limit"), {"max_size": None})]
    assert "many" in shell.refused("group", "limit", "billing", "many", code=2)


def test_a_member_has_one_name(shell: Shell, posted: Posted) -> None:
    """The error of usage lists the ways to name a member."""
    for names in ([], ["billing-1", "--client-id", "billing-1"]):
        ended = shell.run("group", "kick", "billing", *names)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.endswith(
            "Give one of MEMBER, --member-id, --instance-id, --client-id.\n"
        )
    assert posted == []


def test_the_coordinator_moves_by_two_commands(shell: Shell, posted: Posted) -> None:
    """Those of the cluster and of the group are one verb."""
    for command in (["cluster", "move-group"], ["group", "move"]):
        shell.done(*command, "a/b", "2")
    assert posted == [(("v1", "groups", "a/b", "move"), {"node": 2})] * 2


@pytest.mark.parametrize(
    ("time", "seconds"), [("45", 45), ("1.5", 1.5), ("5m", 300), ("P1D", 86_400)]
)
def test_times(shell: Shell, posted: Posted, time: str, seconds: float) -> None:
    """In seconds, or with a unit."""
    moved = shell.done("clock", "advance", time)
    assert moved == f"moved the clock ahead by {seconds} s; 1 timer fired\n"
    assert posted == [(("v1", "clock", "advance"), {"seconds": seconds})]


@pytest.mark.parametrize(
    ("name", "answer", "sentence"),
    [
        ("limit", {"max_size": None}, "group g has no limit but group.max.size"),
        ("limit", {"max_size": 1}, "group g has a limit of 1 member"),
        ("hold", {"held": "Stable"}, "group g is held in Stable"),
        ("hold", {"held": "Empty"}, "group g will be held in Empty"),
    ],
)
def test_sentences(name: str, answer: dict[str, Any], sentence: str) -> None:
    """They have the state of the group, and fit the answer."""
    (verb,) = [each for each in GroupVerbs.all() if each.name == name]
    known = {"group": "g", "state": "Stable", **answer}
    assert verb.sentence(known) == f"{sentence}; it is Stable now"
    known["state"] = "Dead"
    assert verb.sentence(known).endswith("; it does not exist yet")
