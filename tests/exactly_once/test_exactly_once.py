"""The short form of `python -m tests.exactly_once`, and planted bugs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests import apache_kafka
from tests.exactly_once.run import CONFIG, Run, Settings


@pytest.mark.interop
def test_apache_kafka_is_correct(tmp_path: Path) -> None:
    """The checker finds nothing in the behaviour of Apache Kafka 4.3."""
    with apache_kafka.running(CONFIG) as kafka:
        host, _, port = kafka.bootstrap_servers.rpartition(":")
        settings = Settings(600, 0, 0, 551, tmp_path, bootstrap=(host, int(port)))
        report = Run(settings, print).play()
    assert report.violations == []
    assert report.polled
    assert report.refused["EndTxn: PRODUCER_FENCED"]
    assert report.joins.total() > 3


@pytest.mark.long
def test_exactly_once(tmp_path: Path) -> None:
    """Neither kills nor moves tear a transaction apart."""
    report = Run(Settings(1_200, 6, 20, 907, tmp_path), print).play()
    assert report.violations == []
    assert report.polled
    assert report.done["kills before markers"]
    assert report.done["moves of __transaction_state"]
    assert report.joins.total() > 3


@pytest.mark.long
@pytest.mark.parametrize(
    ("bug", "found"),
    [
        ("ignored_stable_offset", "^intermediate read:"),
        ("lost_index_entries", "^aborted read:"),
        ("instant_offsets", "^offset:"),
        ("lost_markers", "^transactions stay open:|: UNSTABLE_OFFSET_COMMIT$"),
        ("unchecked_epochs", "^fenced:"),
    ],
)
def test_a_planted_bug_is_found(tmp_path: Path, bug: str, found: str) -> None:
    """A broker with this bug is not correct; who notices first may differ."""
    kills = int(bug == "lost_markers")  # only a restart shows it
    report = Run(Settings(200, kills, 0, 112, tmp_path, bug=bug), print).play()
    assert any(re.search(found, each) for each in report.violations), report
