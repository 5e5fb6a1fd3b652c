"""Checks for every assignment, of any assignor."""

from __future__ import annotations

from collections import Counter

from kohort.client.assignors.contract import Assignment, Subscriptions, Topics


def check_complete(
    given: Assignment, cluster: Topics, subscriptions: Subscriptions
) -> None:
    """Every subscribed partition has one owner, which subscribes to it."""
    assert set(given) == set(subscriptions)
    owners = Counter(partition for owned in given.values() for partition in owned)
    assert owners == {
        (topic, info.partition): 1
        for topic in {t for s in subscriptions.values() for t in s.topics}
        for info in cluster.get(topic, ())
    }
    check_wanted(given, subscriptions)


def check_wanted(given: Assignment, subscriptions: Subscriptions) -> None:
    """No member has an unsubscribed partition, or one of another member."""
    owned = [partition for each in given.values() for partition in each]
    assert len(owned) == len(set(owned))
    for member, each in given.items():
        assert {topic for topic, _ in each} <= set(subscriptions[member].topics)


def check_balanced(given: Assignment, subscriptions: Subscriptions) -> None:
    """No owner has two more partitions than another subscriber."""
    sizes = {member: len(owned) for member, owned in given.items()}
    for owner, owned in given.items():
        for topic in {topic for topic, _ in owned}:
            for member, subscription in subscriptions.items():
                if topic in subscription.topics:
                    assert sizes[owner] - sizes[member] < 2, (owner, member, topic)
