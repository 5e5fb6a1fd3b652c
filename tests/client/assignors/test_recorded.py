"""Assignments recorded from kafka-clients 4.3, as literal expectations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.client.assignors.cases import DATA, partitions, read
from tests.client.assignors.checks import check_wanted

from kohort.client.assignors import ASSIGNORS
from kohort.client.assignors.contract import MemberSubscription
from kohort.client.assignors.java_order import string_hash
from kohort.client.assignors.serialization import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.protocol import consumer

RECORDED = read((DATA / "cases.jsonl").read_text(encoding="utf-8").splitlines())
CASES = [case for case in RECORDED if not case.has_lost_interest]
BYTES = [json.loads(line) for line in (DATA / "bytes.jsonl").read_text().splitlines()]
every_group = pytest.mark.parametrize("raw", BYTES, ids=range(len(BYTES)))


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_group_is_divided_as_by_the_java_client(assignor: str) -> None:
    """The same partitions for each member, in the same order."""
    cases = [case for case in CASES if case.assignor == assignor]
    assert cases
    for case in cases:
        assert case.assign() == case.java, case.name


def test_where_the_java_client_serves_who_has_lost_interest() -> None:
    """These groups are assigned, too, but only to subscribers."""
    excepted = [case for case in RECORDED if case.has_lost_interest]
    assert len(excepted) < 10
    for case in excepted:
        check_wanted(case.assign(), case.subscriptions)


def test_the_recorded_groups_have_something_of_everything() -> None:
    """The recorded cases cover every kind of group."""
    for assignor in ASSIGNORS:
        cases = [case for case in CASES if case.assignor == assignor]
        for equal in (False, True):
            some = [case for case in cases if case.is_equal == equal]
            assert len(some) >= 10
            members = [m for case in some for m in case.subscriptions.values()]
            assert any(member.rack for member in members)
            assert any(member.instance_id for member in members)
            if "sticky" in assignor:
                assert len({member.generation for member in members}) > 2
                assert any(member.user_data for member in members)


def _subscription(raw: dict[str, Any]) -> MemberSubscription:
    data = raw["user_data"]
    return MemberSubscription(
        raw["topics"].split(),
        None if data is None else bytes.fromhex(data),
        partitions(raw["partitions"]),
        raw["generation"],
        None,
        raw["rack"],
    )


@every_group
def test_subscriptions_are_the_java_clients_bytes(raw: dict[str, Any]) -> None:
    """Topics and owned partitions are in order, with the latest version."""
    assert encode_subscription(_subscription(raw)).hex() == raw["subscriptions"][3]


@every_group
def test_subscriptions_of_every_version_are_read(raw: dict[str, Any]) -> None:
    """Fields that a version lacks have their defaults."""
    sent = _subscription(raw)
    for version, encoded in enumerate(raw["subscriptions"]):
        read_back = decode_subscription(bytes.fromhex(encoded), "instance")
        assert read_back == MemberSubscription(
            sorted(sent.topics),
            sent.user_data,
            sorted(sent.owned) if version >= 1 else [],
            sent.generation if version >= 2 else -1,
            "instance",
            sent.rack if version >= 3 else None,
        )


@every_group
def test_assignments_are_the_java_clients_bytes(raw: dict[str, Any]) -> None:
    """Topics are in the order of their first partitions, in both directions."""
    given = partitions(raw["partitions"])
    assert encode_assignment(given).hex() == raw["assignment"]
    assert sorted(decode_assignment(bytes.fromhex(raw["assignment"]))) == sorted(given)


@every_group
def test_user_data_are_the_java_clients_bytes(raw: dict[str, Any]) -> None:
    """The user data of the sticky assignors in a subscription."""
    given, generation = partitions(raw["partitions"]), raw["generation"]
    for name in ("sticky", "cooperative-sticky"):
        data = ASSIGNORS[name].metadata_user_data(given, generation)
        assert data is not None
        assert data.hex() == raw[name]
    read_back = consumer.decode_sticky_user_data(bytes.fromhex(raw["sticky"]))
    assert read_back.generation == generation


def test_the_first_subscription_has_no_past() -> None:
    """Sticky sends none; cooperative-sticky sends no generation."""
    data = {
        name: assignor.metadata_user_data(None, -1)
        for name, assignor in ASSIGNORS.items()
    }
    assert data == {
        "range": None,
        "roundrobin": None,
        "sticky": None,
        "cooperative-sticky": b"\xff\xff\xff\xff",
    }


def test_no_bytes_are_no_partitions() -> None:
    """A member that the leader left out gets an empty assignment."""
    assert decode_assignment(b"") == []


def test_hashes_of_strings_are_javas() -> None:
    """ASCII, supplementary characters and lone surrogates."""
    hashes = json.loads((DATA.parent / "group_hashes.json").read_text())
    for text, hashed, _ in hashes:
        assert string_hash(text) == hashed % 2**32
