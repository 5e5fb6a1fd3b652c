"""The marker ``kohort(...)``: the broker that a test asks for.

Markers of the module, the class and the test are merged: the closest one wins, key by
key where the value is a configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from kohort.broker.clock import Mode

if TYPE_CHECKING:
    import pytest

TEST_CONFIG: Final[Mapping[str, object]] = {
    # Without it each first assignment would take 3 s.
    "group.initial.rebalance.delay.ms": 0,
    # Clients of a test may use sessions as short as they like.
    "group.min.session.timeout.ms": 1,
    "group.consumer.min.session.timeout.ms": 1,
    # The broker sets the pace of consumer groups (KIP-848): 5 s, and 1 s.
    "group.consumer.min.heartbeat.interval.ms": 1,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.assignment.interval.ms": 0,
}
"""Configuration that differs from Kafka's defaults."""

CLOCKS: Final = get_args(Mode)


class MarkerError(ValueError):
    """The marker has an unknown keyword, or an invalid value."""


@dataclass(frozen=True)
class Settings:
    """The broker of a test.

    Attributes:
        nodes: the number of nodes.
        partitions: partitions of a topic that is created without a number of them;
            None for ``num.partitions``.
        config: Kafka's configuration keys and their values.
        clock: "real", or "manual" for a clock that only `Kohort.clock` moves.
        faults: rules, each as in JSON, or the path of a plan in TOML.
        seed: makes ids and faults repeatable; None for random ids.
        data_dir: True for a data directory in the test's `tmp_path`, or a path;
            False to keep logs in memory.
    """

    nodes: int = 1
    partitions: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    clock: Mode = "real"
    faults: str | Path | tuple[Mapping[str, Any], ...] = ()
    seed: int | None = None
    data_dir: bool | str | Path = False

    def broker_config(self) -> dict[str, object]:
        """The configuration of the broker."""
        of_topics = (
            {} if self.partitions is None else {"num.partitions": self.partitions}
        )
        return {**TEST_CONFIG, **of_topics, **self.config}


NAMES: Final = tuple(each.name for each in fields(Settings))


def merged(marks: Iterable[pytest.Mark]) -> Settings:
    """The settings of a test.

    Args:
        marks: its markers, the closest first, as `Node.iter_markers` has them.

    Raises:
        MarkerError: one of them is invalid; the message names the keyword.
    """
    values: dict[str, Any] = {}
    for mark in reversed([*marks]):
        if mark.args:
            raise MarkerError(
                f"kohort({', '.join(map(repr, mark.args))}): takes keywords only: "
                + ", ".join(NAMES)
            )
        for name, value in mark.kwargs.items():
            _check(name, value)
            if name == "config":
                value = {**values.get(name, {}), **value}  # noqa: PLW2901 - of one key
            values[name] = value
    if not isinstance(values.get("faults", ""), str | Path):
        values["faults"] = tuple(values["faults"])
    return Settings(**values)


def _check(name: str, value: Any) -> None:
    if name not in NAMES:
        raise MarkerError(
            f"kohort({name}=...): unknown keyword; the keywords are: {', '.join(NAMES)}"
        )
    types, words = _WANTED[name]
    # A bool is an int, too.
    is_right = type(value) in types if type(value) is bool else isinstance(value, types)
    if not is_right:
        raise MarkerError(f"kohort({name}={value!r}): must be {words}")
    if name in {"nodes", "partitions"} and value < 1:
        raise MarkerError(f"kohort({name}={value!r}): must be at least 1")
    if name == "clock" and value not in CLOCKS:
        raise MarkerError(f"kohort(clock={value!r}): must be {' or '.join(CLOCKS)}")


_WANTED: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "nodes": ((int,), "a number"),
    "partitions": ((int,), "a number"),
    "config": ((Mapping,), "a mapping of Kafka's keys"),
    "clock": ((str,), "a text"),
    "faults": ((str, Path, list, tuple), "a list of rules, or the path of a plan"),
    "seed": ((int,), "a number"),
    "data_dir": ((bool, str, Path), "True, False or a path"),
}
"""The types of each keyword's values, and their words."""
