"""The broker's configuration: Kafka's keys, and the source of each value.

``--set`` overrides the environment, the environment the file, and the file Kafka's
defaults. Values are checked as Kafka checks them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kohort.broker.config_keys import BROKER_KEYS, PREFIXES, TOPIC_KEYS, Key
from kohort.protocol.slotted import slotted

Value = bool | int | float | str | tuple[str, ...] | None

# The sources of a value as DescribeConfigs numbers them (KIP-226), best first.
TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5

TYPE_NUMBERS = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
"""The types of values as DescribeConfigs numbers them (KIP-569)."""

ENVIRONMENT_PREFIX = "KOHORT_"
_INTERNAL_VARIABLES = frozenset({"KOHORT_FROZEN"})
# Kubernetes and Docker links set these variables for a service called kohort.
_SERVICE_LINKS = re.compile(
    r"KOHORT_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)

_BITS = {"short": 16, "int": 32, "long": 64}
_INTEGER = re.compile(r"[+-]?[0-9]+")


class ConfigError(ValueError):
    """A key that is not known, or a value that it cannot have; one line of text."""


@slotted
class Setting:
    """A value that was set.

    Attributes:
        origin: its source, for people: ``--set``, the name of a file, ...
    """

    value: Value
    origin: str


@slotted
class Entry:
    """One key as DescribeConfigs shows it.

    Attributes:
        value: as text; None for null, and for a password that is set.
        source: one of the `*_CONFIG` numbers.
        synonyms: (key, value as text, source) of all that is set, best first.
    """

    key: Key
    value: str | None
    source: int
    synonyms: tuple[tuple[str, str | None, int], ...]


class Config:
    """The configuration of one broker.

    ``config["group.max.size"]`` is the value in Python's type: int, bool, float,
    str, a tuple of str for lists, None for null. A key that is not in the table
    of `config_keys` is a KeyError.

    Args:
        settings: values by key, as text or in Python's types. The environment is
            not read, so that a program's settings mean the same on every machine.

    Raises:
        ConfigError: an unknown key or an invalid value. The message, one line, has
            the key, the value, its source and the reason.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self._layers: dict[int, dict[str, Setting]] = {
            DYNAMIC_BROKER_CONFIG: {},
            DYNAMIC_DEFAULT_BROKER_CONFIG: {},
            STATIC_BROKER_CONFIG: {
                name: value
                if isinstance(value, Setting)
                else _setting(name, value, "the program")
                for name, value in (settings or {}).items()
            },
        }
        self._values = self._resolve(self._layers)
        self._check_together(self._values)

    @classmethod
    def load(
        cls,
        sets: Iterable[str] = (),
        file: str | os.PathLike[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Config:
        """The configuration from its sources.

        Args:
            sets: texts ``key=value``; of several for one key the last counts.
            file: a TOML file; tables nest as the dots of the keys do.
            environment: of which the variables ``KOHORT_*`` are read.

        Raises:
            ConfigError: as the constructor; or the file cannot be read.
        """
        settings = _from_file(Path(file)) if file is not None else {}
        settings |= _from_environment(environment or {})
        return cls(settings | _from_sets(sets))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def log_retention_ms(self) -> int:
        """How long records are kept, in milliseconds, of three keys; -1 for ever."""
        return _retention_ms(self._values)

    @property
    def unused(self) -> tuple[tuple[str, str | None, str], ...]:
        """(key, value, origin) of settings, not at the default, without effect here."""
        return tuple(
            (name, _shown(key, setting.value), setting.origin)
            for name, setting in self._layers[STATIC_BROKER_CONFIG].items()
            if not (key := _key(name)).used and setting.value != _default(key)
        )

    def entry(self, name: str) -> Entry:
        """A key of the broker as DescribeConfigs shows it; KeyError for no key."""
        key = _key(name)
        synonyms = [
            (name, _shown(key, layer[name].value), source)
            for source, layer in self._layers.items()
            if name in layer
        ]
        if key.default is not None:
            synonyms.append((name, key.default, DEFAULT_CONFIG))
        _, text, source = synonyms[0] if synonyms else (name, None, DEFAULT_CONFIG)
        return Entry(key, text, source, tuple(synonyms))

    def topic_entry(self, name: str, overrides: Mapping[str, str]) -> Entry:
        """A key of a topic as DescribeConfigs shows it; KeyError for an unknown key.

        Args:
            name: the key.
            overrides: the topic's own values, as texts that `parse_topic` accepts.
        """
        key = TOPIC_KEYS[name]
        parents = [self.entry(parent) for parent in key.parents]
        synonyms = [s for parent in parents for s in parent.synonyms]
        # Kafka returns the source of a value only if it is the parent's value
        # unchanged: not for hours that became milliseconds.
        text, source = to_text(self.topic_default(name)), DEFAULT_CONFIG
        if synonyms and synonyms[0][0] == key.parents[0]:
            _, text, source = synonyms[0]
        else:
            synonyms = []
        if name in overrides:
            text, source = to_text(parse(key, overrides[name])), TOPIC_CONFIG
            synonyms.insert(0, (name, text, source))
        return Entry(key, text, source, tuple(synonyms))

    def topic(self, overrides: Mapping[str, str]) -> dict[str, Any]:
        """The configuration of a topic: ``topic(...)["retention.ms"]`` and so on.

        Args:
            overrides: the topic's own values, as texts that `parse_topic` accepts.
        """
        return {
            name: parse(key, overrides[name])
            if name in overrides
            else self.topic_default(name)
            for name, key in TOPIC_KEYS.items()
        }

    def topic_default(self, name: str) -> Value:
        """Value for topics that do not set this key; KeyError if it is unknown."""
        key = TOPIC_KEYS[name]
        if name == "retention.ms":
            return self.log_retention_ms
        for parent in key.parents:
            value = self._values[parent]
            if value is not None:
                hours = parent.endswith(".hours")
                return value * 3_600_000 if hours else value
        return _default(key)

    def dynamic(self, source: int) -> dict[str, str | None]:
        """Values set while the broker runs, as texts by key; None for passwords.

        Args:
            source: DYNAMIC_BROKER_CONFIG or DYNAMIC_DEFAULT_BROKER_CONFIG.
        """
        layer = self._layers[source]
        return {n: _shown(BROKER_KEYS[n], s.value) for n, s in layer.items()}

    def alter(
        self,
        changes: Mapping[str, str | None],
        *,
        source: int = DYNAMIC_BROKER_CONFIG,
        validate_only: bool = False,
    ) -> None:
        """Changes values while the broker runs, all of them or none (KIP-226).

        Args:
            changes: values as text; None removes a value that was set at run time.
            source: DYNAMIC_BROKER_CONFIG for one broker's, or
                DYNAMIC_DEFAULT_BROKER_CONFIG for all brokers'.
            validate_only: checks and raises as usual, but changes nothing.

        Raises:
            ConfigError: a key is unknown or cannot be changed so, or a value is bad.
        """
        layer = dict(self._layers[source])
        for name, text in changes.items():
            key = _known(name, text, "changed while running")
            if key.read_only:
                raise ConfigError(f"{name} cannot be changed while the broker runs")
            if key.mode == "per-broker" and source == DYNAMIC_DEFAULT_BROKER_CONFIG:
                raise ConfigError(f"{name} can be changed for one broker only")
            if text is None:
                layer.pop(name, None)
            else:
                layer[name] = _setting(name, text, "changed while running")
        layers = self._layers | {source: layer}
        values = self._resolve(layers)
        self._check_together(values)
        if not validate_only:
            self._layers, self._values = layers, values

    @staticmethod
    def _resolve(layers: Mapping[int, Mapping[str, Setting]]) -> dict[str, Value]:
        values = {name: _default(key) for name, key in BROKER_KEYS.items()}
        for source in sorted(layers, reverse=True):
            values |= {name: setting.value for name, setting in layers[source].items()}
        return values

    def _check_together(self, values: Mapping[str, Any]) -> None:
        """Checks Kafka's rules about several keys at once, for keys in use."""
        if _retention_ms(values) == 0:
            names = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
            name = next(name for name in names if values[name] is not None)
            self._refuse(name, values, "must be -1 (for ever) or at least 1")
        largest = values["socket.request.max.bytes"]
        if 0 < values["queued.max.request.bytes"] < largest:
            why = f"must be at least socket.request.max.bytes ({largest})"
            self._refuse("queued.max.request.bytes", values, why)
        delay = values["connection.failed.authentication.delay.ms"]
        if 0 <= values["connections.max.idle.ms"] <= delay:
            why = f"must be above connection.failed.authentication.delay.ms ({delay})"
            self._refuse("connections.max.idle.ms", values, why)

    def _refuse(self, name: str, values: Mapping[str, Any], why: str) -> None:
        setting = self._layers[STATIC_BROKER_CONFIG].get(name)
        origin = setting.origin if setting else "changed while running"
        raise ConfigError(f"{name}={to_text(values[name])} ({origin}): {why}")


def parse_topic(name: str, text: str) -> Value:
    """The value of a topic's key in Python's type.

    Raises:
        ConfigError: an unknown key of topics, or an invalid value.
    """
    key = TOPIC_KEYS.get(name)
    if key is None:
        raise ConfigError(
            f"{name}: unknown topic setting{_did_you_mean(name, TOPIC_KEYS)}"
        )
    try:
        return parse(key, text)
    except ValueError as error:
        raise ConfigError(f"{name}={_quoted(text)}: {error}") from None


def parse(key: Key, text: str) -> Value:
    """A value in Python's type from text, as Kafka's ConfigDef reads it.

    Raises:
        ValueError: invalid; the message says the valid values.
    """
    if key.type == "password":
        return text
    text = text.strip()
    if key.type == "boolean":
        if text.lower() not in {"true", "false"}:
            raise ValueError("must be true or false")
        return text.lower() == "true"
    if key.type in _BITS:
        return _ranged(key, _whole(text, _BITS[key.type]))
    if key.type == "double":
        return _ranged(key, _real(text))
    if key.type == "list":
        items = tuple(re.split(r"\s*,\s*", text)) if text else ()
        if "" in items:
            raise ValueError("an element is empty")
        return tuple(_chosen(key, item) for item in items)
    return _chosen(key, text)


def _whole(text: str, bits: int) -> int:
    # Longer numbers are out of range, and slow to convert.
    if _INTEGER.fullmatch(text) and len(text) <= 25:
        number = int(text)
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            return number
    raise ValueError(f"must be a whole number of {bits} bits")


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be a number") from None


def to_text(value: object) -> str | None:
    """A value as Kafka writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return ",".join(str(to_text(item)) for item in value)
    return str(value)


def _ranged(key: Key, number: float) -> float:
    """The number, if the key's range has it."""
    allowed, _, exception = key.allowed.partition("|")
    low, dots, high = allowed.partition("..")
    if not dots or (exception and number == int(exception)):
        return number
    other = f" or {exception}" if exception else ""
    if high and not float(low) <= number <= float(high):
        raise ValueError(f"must be {low} to {high}{other}")
    if not high and number < int(low):
        raise ValueError(f"must be at least {low}{other}")
    return number


def _chosen(key: Key, text: str) -> str:
    """Returns the text if the key allows it; else raises ValueError."""
    if key.allowed == "nonempty" and not text:
        raise ValueError("must not be empty")
    if key.allowed in {"*", "nonempty"}:
        return text
    choices = key.allowed.removeprefix("~").split("|")
    found = text.upper() if key.allowed.startswith("~") else text
    if found not in choices:
        raise ValueError(f"must be one of {', '.join(choices)}")
    return text


def _default(key: Key) -> Value:
    return None if key.default is None else parse(key, key.default)


def _shown(key: Key, value: Value) -> str | None:
    return None if key.sensitive else to_text(value)


def _retention_ms(values: Mapping[str, Any]) -> int:
    found: int | None = values["log.retention.ms"]
    if found is None and values["log.retention.minutes"] is not None:
        found = values["log.retention.minutes"] * 60_000
    if found is None:
        found = values["log.retention.hours"] * 3_600_000
    return max(found, -1)


def _quoted(value: object) -> str:
    """A value for people, in one line, and not for ever."""
    text = str(value if isinstance(value, str) else to_text(value))
    if len(text) > 100:
        text = text[:100] + "..."
    return text if text.isprintable() and text.strip() == text != "" else repr(text)


def _did_you_mean(name: str, names: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _key(name: str) -> Key:
    """A key of the broker; KeyError for no key."""
    if name not in BROKER_KEYS and name.startswith(PREFIXES):
        # It may well be a secret: passwords are set by listener, too.
        return Key(name, "password", None, "*", "hidden", used=False)
    return BROKER_KEYS[name]


def _known(name: str, value: object, origin: str) -> Key:
    try:
        return _key(name)
    except KeyError:
        hint = _did_you_mean(name, BROKER_KEYS)
        line = f"{_quoted(name)}={_quoted(value)} ({origin}): unknown setting{hint}"
        raise ConfigError(line) from None


def _setting(name: str, value: object, origin: str) -> Setting:
    key = _known(name, value, origin)
    text = to_text(value)
    if text is None:
        if key.default is not None:
            raise ConfigError(f"{name}=null ({origin}): must have a value")
        return Setting(None, origin)
    try:
        return Setting(parse(key, text), origin)
    except ValueError as error:
        shown = "[hidden]" if key.sensitive else _quoted(value)
        raise ConfigError(f"{name}={shown} ({origin}): {error}") from None


def _from_sets(sets: Iterable[str]) -> dict[str, Setting]:
    settings = {}
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {_quoted(text)}: must be key=value")
        name = name.strip()
        settings[name] = _setting(name, value, "--set")
    return settings


def _from_environment(environment: Mapping[str, str]) -> dict[str, Setting]:
    given = {
        variable: value
        for variable, value in environment.items()
        if variable.startswith(ENVIRONMENT_PREFIX)
        and variable not in _INTERNAL_VARIABLES
        and not _SERVICE_LINKS.fullmatch(variable)
    }
    if not given:
        return {}
    keys = {variable_of(name): name for name in BROKER_KEYS}
    settings = {}
    for variable, value in sorted(given.items()):
        if variable not in keys:
            hint = _did_you_mean(variable, keys)
            raise ConfigError(
                f"{variable}={_quoted(value)} (environment): unknown setting{hint}"
            )
        name = keys[variable]
        settings[name] = _setting(name, value, f"environment, {variable}")
    return settings


def variable_of(name: str) -> str:
    """The environment variable that sets a key."""
    return ENVIRONMENT_PREFIX + re.sub(r"[.-]", "_", name).upper()


def _from_file(path: Path) -> dict[str, Setting]:
    import tomllib

    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: no TOML: {error}") from None
    settings: dict[str, Setting] = {}
    for name, value in _flat(document):
        if name in settings:
            raise ConfigError(f"{name}={_quoted(value)} ({path}): set twice")
        settings[name] = _setting(name, value, str(path))
    return settings


def _flat(
    table: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, object]]:
    """The values of nested tables, by dotted key."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
