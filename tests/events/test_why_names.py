"""Names of members, and words for times."""

from __future__ import annotations

import pytest
from tests.coordinator.context import Context
from tests.events.build import Stream
from tests.events.consumers import consumer, history_of

from kohort.broker.events.findings.words import duration
from kohort.control.why import history


def test_names_of_any_length(context: Context) -> None:
    """Clients may send 32,767 characters: names are cut, and still different."""
    members = [consumer(context, "a" * 30_000) for _ in range(3)]
    context.form(members, sync=False)
    names = history_of(context).names
    called = {names.of(each.member_id) for each in members}
    assert len(called) == 3
    assert {len(each) for each in called} <= {*range(80, 100)}


def test_names_tell_members_apart() -> None:
    """Two of one client id at the same time show where their ids differ."""
    stream = Stream()
    for number in ("1111", "2222"):
        member_id = f"rdkafka-{number}0000-0000-0000-0000-000000000000"
        fields = {"member_id": member_id, "client_id": "rdkafka", "host": "/h"}
        stream.say("member_joined", cause="new", is_first=True, **fields)
    found = history(stream.events, "g")
    assert found.names.list(found.facts.members) == "rdkafka-1111 and rdkafka-2222"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ms"),
        (999_999, "under 1 ms"),
        (54_400_000, "54 ms"),
        (540_000_000, "0.54 s"),
        (999_000_000, "1.0 s"),
        (59_940_000_000, "59.9 s"),
        (59_960_000_000, "1 min"),
        (125_000_000_000, "2 min 5 s"),
        (3_599_700_000_000, "1 h"),
        (15_947_000_000_000, "4 h 26 min"),
    ],
)
def test_durations(ns: int, text: str) -> None:
    """About two significant digits."""
    assert duration(ns) == text
