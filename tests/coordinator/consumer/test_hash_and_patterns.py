"""Topics of consumer groups: their hash, and the patterns that match them."""

from __future__ import annotations

import pytest

from kohort.broker.coordinator.consumer.regex import (
    InvalidRegularExpressionError,
    Resolution,
    compiled,
)
from kohort.broker.coordinator.consumer.topics_hash import group_hash, topic_hash
from kohort.broker.coordinator.topics import TopicImage
from kohort.broker.patterns import MOST_CHARACTERS

ORDERS = TopicImage(
    bytes.fromhex("00112233445566778899aabbccddeeff"),
    "orders",
    [["a", "b"], ["rück"], []],
)
BILLS = TopicImage(bytes.fromhex("ffeeddccbbaa99887766554433221100"), "bills", [[]])


def test_hashes_are_those_of_kafka() -> None:
    """The numbers are from Kafka 4.3's Utils."""
    hashes = {"orders": topic_hash(ORDERS), "bills": topic_hash(BILLS)}
    assert hashes == {"orders": 61816030937703102, "bills": 1300518010474812258}
    assert group_hash(hashes) == 8813418166510718414
    assert group_hash({}) == 0


def test_a_hash_changes_with_racks_and_partitions() -> None:
    """Each field of a topic is in it."""
    others = [
        TopicImage(BILLS.topic_id, "bills", [["a"]]),
        TopicImage(BILLS.topic_id, "bills", [[], []]),
        TopicImage(BILLS.topic_id, "bill", [[]]),
        TopicImage(ORDERS.topic_id, "bills", [[]]),
    ]
    assert len({topic_hash(topic) for topic in [BILLS, *others]}) == 5


@pytest.mark.parametrize(
    ("regex", "description"),
    [
        ("[a", "missing closing ]"),
        ("(a", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{2000}", "invalid repeat count"),
        ("\\", "trailing backslash at end of expression"),
        ("\\8", "invalid escape sequence"),
        ("a\\C", "invalid escape sequence"),
        ("(?P<n>a)(?<n>b)", "duplicate capture group name"),
        ("[z-a]", "invalid character class range"),
        ("(?P<n", "invalid named capture"),
        ("(?<=a)b", "invalid named capture"),
        ("(?z)", "invalid or unsupported Perl syntax"),
        ("a" * (MOST_CHARACTERS + 1), "the pattern is too large"),
    ],
)
def test_an_invalid_pattern_has_the_message_of_kafka(
    regex: str, description: str
) -> None:
    """The descriptions are re2j's; the last one is kohort's limit."""
    with pytest.raises(InvalidRegularExpressionError) as error:
        compiled(regex)
    assert str(error.value) == (
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression:"
        f" {description}."
    )


@pytest.mark.parametrize(
    "regex", [r"\Q\C\E", r"\\C", "(?P<n>a)(?<m>b)", "[]](?<n>a)[[:alpha:](?<n>]"]
)
def test_patterns_that_only_look_invalid(regex: str) -> None:
    """Quoted text is plain text; groups may have different names."""
    compiled(regex)


def test_a_pattern_matches_whole_names() -> None:
    """The topics are sorted; an invalid pattern has none."""
    names = ["orders-2", "my-orders", "orders", "__consumer_offsets", "orders-1"]
    resolution = Resolution(["orders(-[0-9])?", "__.*", "(", "nothing"], names)
    assert resolution.go_on()
    assert resolution.found == {
        "orders(-[0-9])?": ["orders", "orders-1", "orders-2"],
        "__.*": ["__consumer_offsets"],
        "(": [],
        "nothing": [],
    }


def test_patterns_are_resolved_in_pieces() -> None:
    """A piece takes a bounded number of steps, with many patterns and many topics."""
    names = [f"topic-{number}" for number in range(1_000)]
    regexes = ["topic-.*", "nothing", *(f"topic-[0-9]*{n}" for n in range(10))]
    resolution = Resolution(regexes, names)
    pieces = 1
    while not resolution.go_on():
        pieces += 1
    assert pieces > len(regexes) / 4
    assert resolution.found["topic-.*"] == sorted(names)
    assert resolution.found["nothing"] == []
    assert [len(resolution.found[regex]) for regex in regexes[2:]] == [100] * 10
