"""The names of `kohort`, and the fixture's object around any broker."""

from __future__ import annotations

import pytest
from tests.testing.test_importing import imported

import kohort as package
from kohort import Broker, Kohort


def test_the_package_imports_its_names_on_first_use() -> None:
    """Each of them; `import kohort` alone imports nothing, as all commands do it."""
    assert imported("kohort") == {"kohort"}
    found = {name: getattr(package, name) for name in package.__all__}
    assert {name: each.__name__ for name, each in found.items()} == dict(
        zip(found, found, strict=True)
    )
    with pytest.raises(AttributeError, match="no attribute 'Brocker'"):
        _ = package.Brocker  # type: ignore[attr-defined]


def test_without_a_broker_it_is_as_the_fixture(kohort: Kohort) -> None:
    """The same settings, account of delivery, and recorder of requests."""
    with Kohort() as made:
        config, wanted = made.broker.config, kohort.broker.config
        assert {key: config[key] for key in config} == {k: wanted[k] for k in wanted}
        assert made.member("billing").join().error == "NONE"
        assert made.requests("JoinGroup")
        assert made.group("billing").redelivered == 0


def test_a_broker_of_a_block_runs_on_behind_it() -> None:
    """`close` stops neither the broker nor its thread."""
    with Broker() as broker:
        with Kohort(broker) as kohort:
            kohort.topic("orders", records=["one"])
            assert kohort.member("billing").join().error == "NONE"
            assert kohort.requests("JoinGroup")
        assert broker.call(lambda: "orders" in broker.cluster.topics.by_name)
    with pytest.raises(RuntimeError, match="has ended"):
        kohort.topic("invoices")


async def test_a_broker_of_this_loop_is_refused() -> None:
    """A call that blocks would wait for itself."""
    async with Broker() as broker:
        with pytest.raises(RuntimeError, match="runs on an event loop of the program"):
            Kohort(broker)
