"""The findings of a group that were published, so that each is published once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kohort.broker.events.account.values import Event
from kohort.broker.events.findings.finding import MOST_EVIDENCE, Finding

MOST: Final = 500
"""Findings of a group that are remembered, with those that were withdrawn: three times
those of a group in which everything goes wrong. Later ones are not published."""


class Told:
    """The latest revision of each finding of a group, in one run.

    Attributes:
        run: the run.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self._latest: dict[str, Mapping[str, Any]] = {}

    def know(self, event: Event) -> None:
        """Notes an event ``finding`` that was published before."""
        self._latest[event["finding"]] = event

    def revise(self, found: Mapping[str, Finding]) -> Iterator[dict[str, Any]]:
        """Compares with the findings of now.

        Args:
            found: the findings by key.

        Yields:
            The fields of an event for each one that is new, has changed, or is gone.
        """
        for key, finding in found.items():
            before = self._latest.get(key)
            if before is None and len(self._latest) >= MOST:
                continue
            now = finding.as_json(MOST_EVIDENCE)
            if before is None or before["is_withdrawn"] or not _is_same(before, now):
                yield self._next(before, now, is_withdrawn=False)
        for key in self._latest.keys() - found.keys():
            before = self._latest[key]
            if not before["is_withdrawn"]:
                now = {name: before[name] for name in _NAMES}
                yield self._next(before, now, is_withdrawn=True)

    def _next(
        self,
        before: Mapping[str, Any] | None,
        now: Mapping[str, Any],
        *,
        is_withdrawn: bool,
    ) -> dict[str, Any]:
        revision = 1 if before is None else before["revision"] + 1
        made = {**now, "revision": revision, "is_withdrawn": is_withdrawn}
        self._latest[now["finding"]] = made
        return made


_NAMES: Final = tuple(Finding("", "", "", ()).as_json())


def _is_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return all(before[name] == now[name] for name in _NAMES)
