"""A broker for the client commands, and a shell that runs them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.commands import serving
from tests.control.shell import At, Shell


@pytest.fixture(scope="module")
def at() -> Iterator[At]:
    """The address of a broker with room for two members per group."""
    keys = ("group.initial.rebalance.delay.ms=0", "group.max.size=2")
    with serving(*(f"--set={key}" for key in keys)) as broker:
        yield {"KOHORT_BOOTSTRAP_SERVERS": broker.address}


@pytest.fixture
def name() -> str:
    """A name for a topic and a group that no other test uses."""
    return f"n{uuid.uuid4().hex[:10]}"


@pytest.fixture
def there(shell: Shell, at: At, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Commands of a user who has set the broker's address."""
    for variable, value in at.items():
        monkeypatch.setenv(variable, value)
    return shell
