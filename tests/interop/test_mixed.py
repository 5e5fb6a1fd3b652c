"""Groups of several client libraries, including kohort's; each of them leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop.mixture import group_of_several
from tests.workers.libraries import CONFLUENT, JAVA, KOHORT, assignors

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.workers.libraries import Library


def _names(libraries: tuple[Library, ...]) -> str:
    return "+".join(each.name for each in libraries)


@pytest.mark.parametrize("assignor", assignors("cooperative-sticky", "roundrobin"))
@pytest.mark.parametrize(
    "libraries", [(KOHORT, CONFLUENT), (CONFLUENT, KOHORT)], ids=_names
)
def test_confluent_kafka(
    play: Callable[..., None], libraries: tuple[Library, ...], assignor: str
) -> None:
    """Each library reads the other's subscriptions and assignments, as leader too.

    With range, see the group of all three.
    """
    play(libraries[0], assignor, lambda scene: group_of_several(scene, *libraries))


@pytest.mark.interop
@pytest.mark.parametrize("assignor", ["roundrobin", "sticky"])
@pytest.mark.parametrize("libraries", [(KOHORT, JAVA), (JAVA, KOHORT)], ids=_names)
def test_java(
    play: Callable[..., None], libraries: tuple[Library, ...], assignor: str
) -> None:
    """The same play passes with kafka-clients and its user data (KIP-54).

    With the other assignors (KIP-429), see the group of all three.
    """
    play(libraries[0], assignor, lambda scene: group_of_several(scene, *libraries))


@pytest.mark.interop
@pytest.mark.parametrize(
    ("assignor", "nodes"), [("range", 1), ("cooperative-sticky", 3)]
)
@pytest.mark.parametrize(
    "libraries",
    [(KOHORT, CONFLUENT, JAVA), (CONFLUENT, JAVA, KOHORT), (JAVA, KOHORT, CONFLUENT)],
    ids=_names,
)
def test_all_three(
    play: Callable[..., None],
    libraries: tuple[Library, ...],
    assignor: str,
    nodes: int,
) -> None:
    """All libraries share one group, and each of them leads it."""
    play(libraries[0], assignor, lambda scene: group_of_several(scene, *libraries))
