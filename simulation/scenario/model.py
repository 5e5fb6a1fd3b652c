"""A scenario: its brokers, topics and groups, and what happens to them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from kohort.broker.config import Config, ConfigError
from kohort.client.config import ConsumerConfig
from kohort.client.errors import ConfigError as ClientConfigError
from kohort.protocol.slotted import slotted
from kohort.simulation.scenario import reading
from kohort.simulation.scenario.reading import ScenarioError, Table
from kohort.simulation.world.pod import Application
from kohort.simulation.world.randomness import Distribution, constant
from kohort.simulation.world.world import LATENCY_S

MOST_MEMBERS: Final = 100_000
MOST_PARTITIONS: Final = 100_000
MOST_NODES: Final = 100

PROTOCOLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
"""The settings of consumers by protocol."""

_OPEN: Final = ("config", "settings")
"""Tables whose keys are Kafka's, with dots."""


@slotted
class TopicSpec:
    """A topic: its partitions, and records per second in each of them."""

    name: str
    partitions: int
    rate: float


@slotted
class GroupSpec:
    """A group: its members, their settings, and their application.

    Attributes:
        name: the ``group.id``.
        members: their number at the start.
        topics: the topics that they subscribe to.
        is_static: whether they have a ``group.instance.id``.
        settings: of the consumers, under Kafka's names with underscores.
        application: see `Application`.
        start_every: time between the starts of two members.
    """

    name: str
    members: int
    topics: Sequence[str]
    is_static: bool
    settings: Mapping[str, Any]
    application: Application
    start_every: Distribution


@slotted
class Scenario:
    """A scenario.

    Attributes:
        name: its name, or that of its file.
        title: one line.
        duration: seconds.
        nodes: the number of nodes.
        config: the brokers' configuration.
        latency: of a message, in seconds.
        topics, groups: by name.
        happenings: tables, which `happenings` reads.
        values: what it was read from.
    """

    name: str
    title: str
    duration: float
    nodes: int
    config: Mapping[str, object]
    latency: Distribution
    topics: Mapping[str, TopicSpec]
    groups: Mapping[str, GroupSpec]
    happenings: Sequence[Table]
    values: Mapping[str, Any]


def ready_scenarios() -> dict[str, str]:
    """The scenarios that kohort brings, by name: their TOML."""
    folder = resources.files("kohort.simulation").joinpath("scenarios")
    found = sorted(folder.iterdir(), key=lambda each: each.name)
    return {
        each.name.removesuffix(".toml"): each.read_text()
        for each in found
        if each.name.endswith(".toml")
    }


def load(name: str, changes: Iterable[tuple[str, str]] = ()) -> Scenario:
    """Reads a scenario.

    Args:
        name: of a ready one, or of a file.
        changes: keys and values to change, as ``groups.billing.members`` and ``"50"``.

    Raises:
        ScenarioError: there is none, or it has a mistake.
    """
    ready = ready_scenarios()
    toml = ready.get(name)
    if toml is None:
        try:
            toml = Path(name).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            names = ", ".join(ready)
            raise ScenarioError(
                f"{name}: {reason}; ready scenarios are {names}"
            ) from None
    try:
        values = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{name}: {error}") from None
    for key, value in changes:
        _change(values, key, value)
    return parse(Path(name).stem, values)


def _change(values: dict[str, Any], path: str, text: str) -> None:
    """Sets the value at a path of keys."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    place: Any = values
    rest = path
    while True:
        key, _, after = rest.partition(".")
        if not after:
            break
        place = place.setdefault(key, {})
        rest = after
        if not isinstance(place, dict):
            raise ScenarioError(f"{path}: {key} is no table")
        if key in _OPEN:
            break
    place[rest] = value


def parse(name: str, values: Mapping[str, Any]) -> Scenario:
    """Checks the values of a scenario.

    Raises:
        ScenarioError: it has a mistake.
    """
    root = Table("", values)
    brokers, network = root.table("brokers"), root.table("network")
    topics = {name: _topic(name, t) for name, t in root.table("topics").named().items()}
    groups = {
        name: _group(name, t, topics)
        for name, t in root.table("groups").named().items()
    }
    if not groups:
        raise ScenarioError("groups: is missing: a scenario has at least one group")
    config = brokers.table("config")
    try:
        Config(config.settings())
    except ConfigError as error:
        raise ScenarioError(f"brokers.config: {error}") from None
    scenario = Scenario(
        name,
        root.take("title", reading.text, name),
        root.take("duration", reading.seconds),
        brokers.take("nodes", reading.count(1, MOST_NODES), 1),
        config.settings(),
        network.take("latency_ms", reading.distribution_ms, constant(LATENCY_S)),
        topics,
        groups,
        root.tables("happenings"),
        values,
    )
    for table in (root, brokers, network):
        table.close()
    return scenario


def _topic(name: str, table: Table) -> TopicSpec:
    partitions = table.take("partitions", reading.count(1, MOST_PARTITIONS))
    rate = table.take("rate", reading.number, 0.0)
    table.close()
    return TopicSpec(name, partitions, rate)


def _group(name: str, table: Table, topics: Mapping[str, TopicSpec]) -> GroupSpec:
    wanted = table.take("topics", reading.texts, [*topics])
    for topic in wanted:
        if topic not in topics:
            known = ", ".join(topics) or "none"
            where = table.name("topics")
            raise ScenarioError(f"{where}: there is no topic {topic!r}, only {known}")
    commits: Any = table.take("commits", reading.word("auto", "sync", "async"), "auto")
    nothing = constant(0.0)
    pauses = table.table("pauses")
    application = Application(
        table.take("record_ms", reading.distribution_ms, nothing),
        commits,
        table.take("start_ms", reading.distribution_ms, nothing),
        pauses.take("every_s", reading.distribution_s, None),
        pauses.take("ms", reading.distribution_ms, nothing),
    )
    protocol = table.take("protocol", reading.word(*PROTOCOLS), "eager")
    settings = {
        "group_id": name,
        "auto_offset_reset": "earliest",
        **PROTOCOLS[protocol],
    }
    own = table.table("settings")
    for key, value in own.settings().items():
        settings[key.replace(".", "_")] = value
    try:
        ConsumerConfig.parse({"bootstrap_servers": "node-1:9092", **settings})
    except ClientConfigError as error:
        raise ScenarioError(f"{own.place}: {error}") from None
    spec = GroupSpec(
        name,
        table.take("members", reading.count(0, MOST_MEMBERS)),
        wanted,
        table.take("static", reading.flag, False),
        settings,
        application,
        table.take("start_every_ms", reading.distribution_ms, nothing),
    )
    pauses.close()
    table.close()
    return spec
