"""Configuration of groups, and of subscriptions to client metrics (KIP-714).

Kafka stores it for any name, also if the group does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kohort.broker.config import Config
from kohort.broker.config_checks import bounds_of
from kohort.broker.config_keys import GROUP_KEYS
from kohort.broker.config_values import parse
from kohort.broker.log.store import StorageError

CLIENT_METRICS: Final = 16
GROUP: Final = 32

LIMIT: Final = 1000
"""Resources of a type that may have a configuration: each change writes all of it."""
LONGEST: Final = 1_000_000
"""Characters of the names and settings of all resources, for the same reason."""

# A broker's configuration is saved under its id, or under "" for all brokers.
_SAVED_AS = {CLIENT_METRICS: "client-metrics ", GROUP: "group "}

_USED: Final = tuple(name for name, key in GROUP_KEYS.items() if key.used)
"""The keys of groups that their coordinators use; all of them are numbers."""


class TooManyError(Exception):
    """The limit on the configuration of resources is reached."""


class ResourceConfigs:
    """The settings of resources by type and name; those without settings are left out.

    Args:
        config: the broker's configuration.
        changed: called after a change, to save it; may raise StorageError.

    Attributes:
        of_groups: by group, the values that its coordinator uses, by key.
    """

    def __init__(self, config: Config, changed: Callable[[], object]) -> None:
        self._config = config
        self._changed = changed
        self.of_groups: dict[str, Mapping[str, int]] = {}
        self._by_type: dict[int, dict[str, Mapping[str, str]]] = {
            type_: {} for type_ in _SAVED_AS
        }

    def names(self, resource_type: int) -> list[str]:
        """The names of the resources of a type that have a configuration."""
        return list(self._by_type[resource_type])

    def settings(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The settings of a resource as texts by key; empty if it has none."""
        return self._by_type[resource_type].get(name, {})

    def put(self, resource_type: int, name: str, settings: Mapping[str, str]) -> None:
        """Replaces the settings of a resource.

        Raises:
            TooManyError: there are too many settings already.
            StorageError: the change could not be saved, and is undone.
        """
        of_type = self._by_type[resource_type]
        before = of_type.get(name)
        if settings and before is None and len(of_type) >= LIMIT:
            raise TooManyError
        if self._length() + _length(name, settings) > LONGEST:
            raise TooManyError
        self._set(resource_type, name, settings)
        try:
            self._changed()
        except StorageError:
            self._set(resource_type, name, before or {})
            raise

    def _length(self) -> int:
        return sum(
            _length(name, settings)
            for of_type in self._by_type.values()
            for name, settings in of_type.items()
        )

    def _set(self, resource_type: int, name: str, settings: Mapping[str, str]) -> None:
        if settings:
            self._by_type[resource_type][name] = settings
        else:
            self._by_type[resource_type].pop(name, None)
        if resource_type == GROUP:
            self.of_groups.pop(name, None)
            if used := {key: settings[key] for key in _USED if key in settings}:
                self.of_groups[name] = {
                    key: self._bounded(key, text) for key, text in used.items()
                }

    def _bounded(self, name: str, text: str) -> int:
        """A value within the broker's bounds, which may have changed by a restart."""
        least: int
        most: int
        least, most = (self._config[bound] for bound in bounds_of(name))
        value = parse(GROUP_KEYS[name], text)
        assert isinstance(value, int)
        return min(max(value, least), most)

    # -- in the data directory

    def saved(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Yields the settings of all resources, by the name they are saved under."""
        for type_, prefix in _SAVED_AS.items():
            for name, settings in self._by_type[type_].items():
                yield prefix + name, settings

    def restore(self, saved_as: str, settings: Mapping[str, str]) -> bool:
        """Takes over saved settings; returns False if the name is not of this kind."""
        for type_, prefix in _SAVED_AS.items():
            if saved_as.startswith(prefix):
                self._set(type_, saved_as.removeprefix(prefix), settings)
                return True
        return False


def _length(name: str, settings: Mapping[str, str]) -> int:
    return sum(len(name) + len(key) + len(text) for key, text in settings.items())
