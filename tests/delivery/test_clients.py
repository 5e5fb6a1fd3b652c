"""The table of truth: what applications handled, against the account of delivery.

Real clients, each with services that commit at different times, are disturbed in many
ways; each says which records it handled. The account has to agree: with what was
handled again, and with what was skipped; and nothing changes when the members close.

KOHORT_DELIVERY=all plays all cells. Otherwise there are enough of them that each pair
of library, assignor, service and disturbance occurs.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
import pytest_asyncio
from tests.delivery.cell import CONFIG, TRANSACTIONAL, played
from tests.delivery.disturbances import AT_WORK, DISTURBANCES
from tests.workers import libraries
from tests.workers.libraries import Library
from tests.workers.process import Pool

from kohort.broker.server import Broker

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

EAGER: Final = "range"
COOPERATIVE: Final = "cooperative-sticky"
SERVICES: Final = ("after", "before", "late", "released", "never", "auto")


class Client(NamedTuple):
    """A client library in the table.

    Attributes:
        library: its worker.
        assignors: to play with.
        without: disturbances, services, and "service-disturbance" that it has not, or
            gets stuck with, or that the broker cannot see.
        quick: those of the default suite.
        marks: of its tests, but for the quick ones.
        services: of its worker.
        is_committed: whether it reads committed records only.
    """

    library: Library
    assignors: tuple[str, ...] = (EAGER, COOPERATIVE)
    without: frozenset[str] = frozenset()
    quick: frozenset[str] = frozenset()
    marks: tuple[pytest.MarkDecorator, ...] = (pytest.mark.long,)
    services: tuple[str, ...] = SERVICES
    is_committed: bool = False

    @property
    def name(self) -> str:
        """Its row of the table."""
        is_program = self.services == (TRANSACTIONAL,)
        return f"{self.library.name}-transactions" if is_program else self.library.name


CLIENTS: Final = (
    Client(
        libraries.CONFLUENT,
        quick=frozenset({"replaced", "crash"}),
        is_committed=True,
    ),
    Client(
        libraries.AIOKAFKA,
        (EAGER,),
        quick=frozenset({"storm", "replaced", "one_of_two", "crash", "kick", "seek"}),
    ),
    Client(libraries.KAFKA_PYTHON, (EAGER,)),
    Client(libraries.KOHORT),
    Client(libraries.JAVA, marks=(pytest.mark.interop,)),
    Client(libraries.FRANZ_GO, marks=(pytest.mark.interop,)),
    Client(
        libraries.SARAMA, (EAGER,), frozenset({"seek"}), marks=(pytest.mark.interop,)
    ),
    # No static members, and no callback that a revocation waits for.
    Client(
        libraries.KAFKAJS,
        ("roundrobin",),
        frozenset({"released", "static", "static_crash"}),
        marks=(pytest.mark.interop,),
        is_committed=True,
    ),
    # The same callback is missing; a group's stream has no seek, and ends where its
    # offset is out of range, or a node stops. After a rebalance it may hand out the
    # response to a Fetch from before. Of a producer's aborted transactions in a
    # response it leaves out only the last one.
    Client(
        libraries.PLATFORMATIC,
        ("roundrobin",),
        frozenset({"released", "seek", "deleted", "restart"})
        | {"join", "storm", "one_of_two", "kick", "join_at_work"},
        marks=(pytest.mark.interop,),
    ),
    *(
        Client(
            library,
            (EAGER,),
            # Not all programs have these, and librdkafka 2.16 finds the
            # coordinator no more after its only node has stopped.
            frozenset({"seek", "latest", "static", "static_crash", "restart"}),
            marks=(pytest.mark.interop,),
            services=(TRANSACTIONAL,),
            is_committed=True,
        )
        for library in libraries.TRANSACTIONAL
    ),
)
WITHOUT_GENERATION: Final = frozenset({libraries.AIOKAFKA, libraries.KAFKAJS})
"""Libraries whose TxnOffsetCommit has no generation."""
QUICK: Final = frozenset({"late", "released", "never"})


def cells() -> Iterator[ParameterSet]:
    """Client, assignor, service, disturbance."""
    for client in CLIENTS:
        for assignor in client.assignors:
            for service in client.services:
                for disturbance in DISTURBANCES:
                    if client.without & {service, disturbance}:
                        continue
                    if disturbance == "aborted" and not client.is_committed:
                        continue
                    is_quick = (
                        disturbance in client.quick
                        and service in QUICK
                        and assignor == EAGER
                    )
                    yield pytest.param(
                        client,
                        assignor,
                        service,
                        disturbance,
                        marks=() if is_quick else client.marks,
                        id=f"{client.name}-{assignor}-{service}-{disturbance}",
                    )


def pairs(cell: ParameterSet) -> set[tuple[object, object]]:
    """The pairs of its values, each with its column.

    What programs with transactions send is one of two sequences: offsets with a
    generation (KIP-447), or with a transactional id for each partition.
    """
    client, assignor, service, disturbance = cell.values
    assert isinstance(client, Client)
    if service == TRANSACTIONAL and client.library in WITHOUT_GENERATION:
        service = f"{TRANSACTIONAL}, an id for each partition"
    values = enumerate([client.library.name, assignor, service, disturbance])
    return {*itertools.combinations(values, 2)}


def covering(cells: Sequence[ParameterSet]) -> list[ParameterSet]:
    """The quick cells, and others with which each pair occurs; in their order."""
    left = set().union(*map(pairs, cells))
    taken = set()
    # First the cells whose pairs are all new, at last those that add a single one.
    for least in (0, 6, 5, 4, 3, 2, 1):
        for number, cell in enumerate(cells):
            is_quick = not cell.marks
            if is_quick if least == 0 else len(pairs(cell) & left) >= least:
                taken.add(number)
                left -= pairs(cell)
    return [cells[number] for number in sorted(taken)]


EVERY: Final = [*cells()]
CELLS: Final = EVERY if os.environ.get("KOHORT_DELIVERY") == "all" else covering(EVERY)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker() -> AsyncIterator[Broker]:
    """A broker that keeps the account."""
    async with Broker(CONFIG, watch_fetches=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Pool]]:
    """Processes by library, used again and again."""
    folder: Path = tmp_path_factory.mktemp("workers")
    pools = {
        each.library.name: Pool(each.library.command, folder, each.library.name)
        for each in CLIENTS
    }
    yield pools
    for each in pools.values():
        each.stop()


def test_a_quarter_of_the_cells_has_each_pair() -> None:
    """As many as each client with each disturbance, and few more."""
    found = covering(EVERY)
    assert set().union(*map(pairs, found)) == set().union(*map(pairs, EVERY))
    assert len(found) <= len(EVERY) / 4


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("client", "assignor", "service", "disturbance"), CELLS)
async def test_the_account_agrees_with_the_applications(
    broker: Broker,
    workers: dict[str, Pool],
    client: Client,
    assignor: str,
    service: str,
    disturbance: str,
) -> None:
    """What was handled again, and skipped; also when all members have closed."""
    at_work = disturbance in AT_WORK
    mine = workers[client.library.name]
    async with played(broker, mine, service, assignor) as cell:
        await DISTURBANCES[disturbance](cell)
        assert not await cell.wrong(at_work=at_work)
        await cell.end()
        assert not await cell.wrong(at_work=at_work)
