"""The marker kohort(...): merged from module, class and test, and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kohort.testing.marker import MarkerError, Settings, merged


def mark(**keywords: Any) -> pytest.Mark:
    """A marker with these keywords."""
    found: pytest.Mark = pytest.mark.kohort(**keywords).mark
    return found


def test_without_a_marker_there_is_one_node_and_no_delay() -> None:
    """A test that asks for nothing gets no initial delay, and any session timeout."""
    settings = merged([])
    assert settings == Settings()
    assert settings.broker_config() == {
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1,
        "group.consumer.min.session.timeout.ms": 1,
        "group.consumer.min.heartbeat.interval.ms": 1,
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.assignment.interval.ms": 0,
    }


def test_the_closest_marker_wins() -> None:
    """The test's marker goes before the class's, and that before the module's."""
    test, class_, module = mark(nodes=1), mark(nodes=2, seed=7), mark(partitions=6)
    settings = merged([test, class_, module])
    assert (settings.nodes, settings.seed, settings.partitions) == (1, 7, 6)


def test_configurations_are_merged_key_by_key() -> None:
    """A test changes one key of its module's configuration and keeps the others."""
    module = mark(config={"group.max.size": 4, "group.min.session.timeout.ms": 6000})
    settings = merged([mark(config={"group.max.size": 2}), module])
    config = settings.broker_config()
    assert config["group.max.size"] == 2
    assert config["group.min.session.timeout.ms"] == 6000


def test_partitions_are_the_default_of_new_topics() -> None:
    """Topics that a client creates have them, too."""
    assert merged([mark(partitions=6)]).broker_config()["num.partitions"] == 6


@pytest.mark.parametrize(
    ("keywords", "why"),
    [
        ({"node": 3}, "kohort(node=...): unknown keyword; the keywords are: nodes,"),
        ({"nodes": True}, "kohort(nodes=True): must be a number"),
        ({"nodes": 0}, "kohort(nodes=0): must be at least 1"),
        ({"partitions": "6"}, "kohort(partitions='6'): must be a number"),
        ({"config": [1]}, "kohort(config=[1]): must be a mapping"),
        ({"clock": "slow"}, "kohort(clock='slow'): must be real or manual"),
        ({"faults": 1}, "kohort(faults=1): must be a list of rules, or the path"),
        ({"data_dir": 1}, "kohort(data_dir=1): must be True, False or a path"),
    ],
)
def test_an_error_names_the_keyword(keywords: dict[str, Any], why: str) -> None:
    """The error for a wrong marker names the keyword and its valid values."""
    with pytest.raises(MarkerError) as error:
        merged([mark(**keywords)])
    assert str(error.value).startswith(why)


def test_arguments_without_a_keyword_are_refused() -> None:
    """kohort(3) could be anything."""
    with pytest.raises(MarkerError, match=r"^kohort\(3\): takes keywords only: nodes"):
        merged([pytest.mark.kohort(3).mark])


def test_faults_are_rules_or_a_path() -> None:
    """Rules come as a list; a plan in a file by its path."""
    assert merged([mark(faults=[{"api": "Fetch"}])]).faults == ({"api": "Fetch"},)
    assert merged([mark(faults=Path("plan.toml"))]).faults == Path("plan.toml")
