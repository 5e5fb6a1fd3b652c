"""The broker's configuration: Kafka's keys, and the source of each value.

``--set`` overrides the environment, the environment overrides the file, and the file
overrides Kafka's defaults. Values are validated as Kafka validates them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kohort.broker import config_checks
from kohort.broker.config_checks import UNITS_MS, in_ms
from kohort.broker.config_hints import did_you_mean, owner
from kohort.broker.config_keys import (
    BROKER_KEYS,
    FAMILIES,
    GROUP_KEYS,
    KOHORT_KEYS,
    PREFIXES,
    TOPIC_KEYS,
    Key,
)
from kohort.broker.config_values import Value, parse, to_text
from kohort.protocol.slotted import slotted

# Numbers of the sources of a value in DescribeConfigs (KIP-226), highest priority
# first.
TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5
BROKER_LOGGER_CONFIG = 6
CLIENT_METRICS_CONFIG = 7
GROUP_CONFIG = 8

ENVIRONMENT_PREFIX = "KOHORT_"
_INTERNAL_VARIABLES = frozenset({"KOHORT_FROZEN"})
# Kubernetes and Docker links set these variables for a service named kohort.
_SERVICE_LINKS = re.compile(
    r"KOHORT_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)
_OF_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
# In Kafka these apply to all listeners at once; other listener keys are per broker.
_CLUSTER_WIDE_OF_LISTENERS = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)


class ConfigError(ValueError):
    """An unknown key or an invalid value; the message is one line."""


@slotted
class Setting:
    """A value that was set.

    Attributes:
        value: in Python's type.
        text: as given, and as synonyms show it; None for null.
        origin: its source in words: ``--set``, the name of a file, ...
    """

    value: Value
    text: str | None
    origin: str


@slotted
class Entry:
    """One key as DescribeConfigs shows it.

    Attributes:
        value: as text; None for null, and for a password that is set.
        source: one of the `*_CONFIG` numbers.
        synonyms: (key, value as text, source) of all values set, best first.
    """

    key: Key
    value: str | None
    source: int
    synonyms: tuple[tuple[str, str | None, int], ...]


class Config:
    """The configuration of one broker.

    ``config["group.max.size"]`` is the value in Python's type: int, bool, float, str, a
    tuple of str for lists, None for null. A key that is not in the table of
    `config_keys` raises KeyError.

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
        """Reads the configuration from its sources.

        Args:
            sets: texts ``key=value``; the last one for a key wins.
            file: a TOML file; nested tables make dotted keys.
            environment: its ``KOHORT_*`` variables are read.

        Raises:
            ConfigError: as for the constructor, or the file cannot be read.
        """
        settings = _from_file(file) if file is not None else {}
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
        """Retention of records in milliseconds, from three keys; -1 means forever."""
        found: int = in_ms(self._values, "log.retention.ms")
        return max(found, -1)

    @property
    def unused(self) -> tuple[tuple[str, str | None, str], ...]:
        """(key, value, origin) of changed settings that have no effect in kohort."""
        return tuple(
            (name, _shown(key, setting.value), setting.origin)
            for name, setting in self._layers[STATIC_BROKER_CONFIG].items()
            if not (key := _key(name)).used and setting.value != _default(key)
        )

    def described(self) -> list[str]:
        """The keys that DescribeConfigs lists: Kafka's, internal ones only if set.

        kohort's own keys are not included.
        """
        names = [name for name, key in BROKER_KEYS.items() if key.is_listed]
        for layer in self._layers.values():
            names += layer
        return [name for name in dict.fromkeys(names) if name not in KOHORT_KEYS]

    def entry(self, name: str, started_with: Mapping[str, str] | None = None) -> Entry:
        """A broker key as DescribeConfigs shows it; KeyError for an unknown key.

        Args:
            name: the key.
            started_with: values of the described node that are in no file; they
                replace the values that were set.
        """
        key = self._key(name)
        own = started_with or {}
        synonyms = list(self._synonyms(key, own))
        # A synonym applies only where none of the key's own values does.
        while synonyms and synonyms[0][0] != name:
            del synonyms[0]
        source = synonyms[0][2] if synonyms else DEFAULT_CONFIG
        text = own.get(name) or _shown(key, self._values[name])
        return Entry(key, text, source, tuple(synonyms))

    def _synonyms(
        self, key: Key, own: Mapping[str, str]
    ) -> Iterator[tuple[str, str | None, int]]:
        """Yields all values of a key and of its synonyms, by source."""
        names = FAMILIES.get(key.name, (key.name,))
        of_listener = _OF_LISTENER.fullmatch(key.name)
        if of_listener:
            names = (key.name, of_listener[1])
        for source, layer in self._layers.items():
            for name in names:
                text = layer[name].text if name in layer else None
                if source == STATIC_BROKER_CONFIG:
                    text = own.get(name, text)
                if text is not None:
                    yield name, None if key.sensitive else text, source
        for name in names:
            known = BROKER_KEYS.get(name)
            # Kafka has no default for node.id, nor for keys that are only set at run
            # time.
            if (
                known
                and known.default is not None
                and known.mode != "dynamic-only"
                and name != "node.id"
            ):
                yield name, None if key.sensitive else known.default, DEFAULT_CONFIG

    def topic_entry(self, name: str, overrides: Mapping[str, str]) -> Entry:
        """A topic key as DescribeConfigs shows it; KeyError for an unknown key.

        Args:
            name: the key.
            overrides: the topic's own values, as texts that `parse_topic` accepts.
        """
        key = TOPIC_KEYS[name]
        # Not the value of a synonym: hours converted to milliseconds have no synonyms.
        synonyms = self.entry(key.parents[0]).synonyms if key.parents else ()
        text = to_text(self.topic_default(name))
        return inherited(key, text, synonyms, overrides, TOPIC_CONFIG)

    def topic_entries(self, overrides: Mapping[str, str]) -> list[Entry]:
        """All topic keys as `topic_entry` has them, internal ones only if set."""
        return [
            self.topic_entry(name, overrides)
            for name, key in TOPIC_KEYS.items()
            if key.is_listed or name in overrides
        ]

    def group_entry(self, name: str, settings: Mapping[str, str]) -> Entry:
        """A group key as DescribeConfigs shows it; KeyError for an unknown key.

        Args:
            name: the key.
            settings: the group's own values, as valid texts.
        """
        key = GROUP_KEYS[name]
        synonyms: tuple[tuple[str, str | None, int], ...]
        synonyms = ((name, key.default, DEFAULT_CONFIG),)
        if key.parents:
            synonyms = self.entry(key.parents[0]).synonyms
        text = to_text(self.group_default(name))
        return inherited(key, text, synonyms, settings, GROUP_CONFIG)

    def group_default(self, name: str) -> Value:
        """Value for groups that do not set this key; KeyError for an unknown key."""
        key = GROUP_KEYS[name]
        return self._values[key.parents[0]] if key.parents else _default(key)

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
        """Value for topics that do not set this key; KeyError for an unknown key."""
        key = TOPIC_KEYS[name]
        if name == "retention.ms":
            return self.log_retention_ms
        for parent in key.parents:
            value = self._values[parent]
            if value is not None:
                unit = parent.rpartition(".")[2] if parent in FAMILIES else "ms"
                return value * UNITS_MS[unit] if unit != "ms" else value
        return _default(key)

    def dynamic(self, source: int) -> dict[str, str | None]:
        """Values set at run time, as texts by key; None for passwords.

        Args:
            source: DYNAMIC_BROKER_CONFIG or DYNAMIC_DEFAULT_BROKER_CONFIG.
        """
        layer = self._layers[source]
        return {
            name: None if self._key(name).sensitive else setting.text
            for name, setting in layer.items()
        }

    def alter(
        self,
        changes: Mapping[str, str | None],
        *,
        source: int = DYNAMIC_BROKER_CONFIG,
        validate_only: bool = False,
    ) -> None:
        """Changes values at run time, all of them or none (KIP-226).

        Args:
            changes: values as text; None removes a value that was set at run time.
            source: DYNAMIC_BROKER_CONFIG for one broker's, or
                DYNAMIC_DEFAULT_BROKER_CONFIG for all brokers'.
            validate_only: checks and raises as usual, but changes nothing.

        Unknown keys are accepted, as in Kafka: a plug-in may use them.

        Raises:
            ConfigError: a key cannot be changed at run time, or a value is invalid.
        """
        layers, values = self._changed(changes, source)
        for name, why in config_checks.change_violations(self._values, values):
            self._refuse(name, values, why)
        if not validate_only:
            self._layers, self._values = layers, values

    def require_for_all_brokers(self, name: str) -> None:
        """Sets a key for all brokers if it is not set; removes a broker's own value.

        From then on values of single brokers, and those given at a start, are ignored.
        """
        common = self._layers[DYNAMIC_DEFAULT_BROKER_CONFIG]
        if name not in common:
            text = to_text(self._values[name])
            self.alter({name: text}, source=DYNAMIC_DEFAULT_BROKER_CONFIG)
        if name in self._layers[DYNAMIC_BROKER_CONFIG]:
            self.alter({name: None})

    def restore(self, values: Mapping[str, str], source: int) -> None:
        """Takes over values that were set before a restart; see `alter`.

        Raises:
            ConfigError: a value is invalid.
        """
        self._layers, self._values = self._changed(values, source)

    def _changed(
        self, changes: Mapping[str, str | None], source: int
    ) -> tuple[dict[int, dict[str, Setting]], dict[str, Value]]:
        layer = dict(self._layers[source])
        for name, text in changes.items():
            key = _changeable(name)
            _check_change(key, source)
            if text is None:
                layer.pop(name, None)
            else:
                layer[name] = _parsed(key, text, "changed while running")
        layers = self._layers | {source: layer}
        values = self._resolve(layers)
        self._check_together(values)
        return layers, values

    def _key(self, name: str) -> Key:
        """A broker key, or one that was set at run time; KeyError for others."""
        if name in BROKER_KEYS:
            return BROKER_KEYS[name]
        if name.startswith(PREFIXES) or any(name in of for of in self._layers.values()):
            return _changeable(name)
        raise KeyError(name)

    @staticmethod
    def _resolve(layers: Mapping[int, Mapping[str, Setting]]) -> dict[str, Value]:
        values = {name: _default(key) for name, key in BROKER_KEYS.items()}
        for source in sorted(layers, reverse=True):
            if source != STATIC_BROKER_CONFIG:
                # In Kafka a key set at run time hides its synonyms.
                for name in layers[source]:
                    for other in FAMILIES.get(name, ()):
                        values[other] = _default(BROKER_KEYS[other])
            values |= {name: setting.value for name, setting in layers[source].items()}
        return values

    def _check_together(self, values: Mapping[str, Any]) -> None:
        for name, why in config_checks.violations(values):
            self._refuse(name, values, why)

    def _refuse(self, name: str, values: Mapping[str, Any], why: str) -> None:
        setting = self._layers[STATIC_BROKER_CONFIG].get(name)
        origin = setting.origin if setting else "changed while running"
        raise ConfigError(f"{name}={_quoted(values[name])} ({origin}): {why}")


def parse_topic(name: str, text: str) -> Value:
    """The value of a topic's key in Python's type.

    Raises:
        ConfigError: an unknown key of topics, or an invalid value.
    """
    key = TOPIC_KEYS.get(name)
    if key is None:
        hint = did_you_mean(name, TOPIC_KEYS)
        if name in BROKER_KEYS:
            hint = "; this is a broker's setting"
        raise ConfigError(f"{name}: unknown topic setting{hint}")
    try:
        return parse(key, text)
    except ValueError as error:
        raise ConfigError(f"{name}={_quoted(text)}: {error}") from None


def inherited(
    key: Key,
    text: str | None,
    synonyms: tuple[tuple[str, str | None, int], ...],
    own: Mapping[str, str],
    source: int,
) -> Entry:
    """A key of a topic, group or subscription: its own value, or the inherited one.

    Args:
        key: the key.
        text: the inherited value.
        synonyms: synonyms of the inherited value, best first.
        own: own values, as valid texts.
        source: the source of own values.
    """
    if key.name in own:
        text = to_text(parse(key, own[key.name]))
        synonyms = ((key.name, text, source), *synonyms)
    return Entry(key, text, synonyms[0][2] if synonyms else DEFAULT_CONFIG, synonyms)


def _default(key: Key) -> Value:
    return None if key.default is None else parse(key, key.default)


def _shown(key: Key, value: Value) -> str | None:
    return None if key.sensitive else to_text(value)


def _quoted(value: object) -> str:
    """A value for messages: one line, shortened."""
    text = str(value if isinstance(value, str) else to_text(value))
    if len(text) > 100:
        text = text[:100] + "..."
    return text if text.isprintable() and text.strip() == text != "" else repr(text)


def _key(name: str) -> Key:
    """A broker key; KeyError for an unknown one."""
    if name not in BROKER_KEYS and name.startswith(PREFIXES):
        # It may be a secret: passwords are set per listener, too.
        return Key(name, "password", None, "*", "hidden", used=False)
    return BROKER_KEYS[name]


def _known(name: str, value: object, origin: str) -> Key:
    try:
        return _key(name)
    except KeyError:
        why = owner(name) or f"unknown setting{did_you_mean(name, BROKER_KEYS)}"
        line = f"{_quoted(name)}={_quoted(value)} ({origin}): {why}"
        raise ConfigError(line) from None


def _setting(name: str, value: object, origin: str) -> Setting:
    key = _known(name, value, origin)
    text = to_text(value)
    if text is None:
        if key.default is not None:
            raise ConfigError(f"{name}=null ({origin}): must have a value")
        return Setting(None, None, origin)
    return _parsed(key, text, origin)


def _parsed(key: Key, text: str, origin: str) -> Setting:
    try:
        return Setting(parse(key, text), text, origin)
    except ValueError as error:
        shown = "[hidden]" if key.sensitive else _quoted(text)
        raise ConfigError(f"{key.name}={shown} ({origin}): {error}") from None


def _changeable(name: str) -> Key:
    """A key that can be changed at run time; a listener's key has its type."""
    of_listener = _OF_LISTENER.fullmatch(name)
    key = BROKER_KEYS.get(of_listener[1] if of_listener else name)
    if key is None:
        return Key(name, "unknown", None, "*", "unknown", used=False)
    if of_listener:
        return Key(name, key.type, None, key.allowed, "unknown", used=False)
    return key


def _check_change(key: Key, source: int) -> None:
    """Checks that a key can be changed at run time (KIP-226).

    Raises:
        ConfigError: it cannot, or not for all brokers at once.
    """
    if key.mode in {"read-only", "hidden"}:
        raise ConfigError(f"{key.name} cannot be changed while the broker runs")
    if key.mode == "per-listener":
        raise ConfigError(f"{key.name} can be changed for one listener only")
    of_listener = _OF_LISTENER.fullmatch(key.name)
    is_per_broker = (
        of_listener[1] not in _CLUSTER_WIDE_OF_LISTENERS
        if of_listener
        else key.mode == "per-broker"
    )
    if is_per_broker and source == DYNAMIC_DEFAULT_BROKER_CONFIG:
        raise ConfigError(f"{key.name} can be changed for one broker only")


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
            key = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            why = owner(key) or f"unknown setting{did_you_mean(variable, keys)}"
            raise ConfigError(f"{variable}={_quoted(value)} (environment): {why}")
        name = keys[variable]
        settings[name] = _setting(name, value, f"environment, {variable}")
    return settings


def variable_of(name: str) -> str:
    """The environment variable that sets a key."""
    return ENVIRONMENT_PREFIX + re.sub(r"[.-]", "_", name).upper()


def _from_file(path: str | os.PathLike[str]) -> dict[str, Setting]:
    import tomllib
    from pathlib import Path

    try:
        with Path(path).open("rb") as file:
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
    """Flattens nested tables to dotted keys."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
