"""Records the requests that a broker receives, for assertions; off by default."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kohort.broker.faults.rule import KEYS

MOST: Final = 10_000
"""Rows kept, the latest: some 5 MB."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Recorded:
    """One request.

    Attributes:
        time_ns: the broker's clock when its handling began, ns since the epoch.
        api: Kafka's name of the API.
        version: its version.
        client_id: the client's id, from the header.
        software: the client's software, as its ApiVersions named it; "" if unknown.
        connection: the number of the connection, within the run.
        node: the node that received it.
        group: the group's id; None if it names no group, or several.
        transactional_id: likewise, the transactional.id.
        member_id: likewise.
        instance_id: likewise, group.instance.id.
        error: the error of the response, "NONE" without one; several are joined by
            commas. None: there is no response, or not yet.
        fault: the labels of the faults that struck it, joined by commas; else None.
    """

    time_ns: int
    api: str
    version: int
    client_id: str
    software: str
    connection: int
    node: int
    group: str | None
    transactional_id: str | None
    member_id: str | None
    instance_id: str | None
    error: str | None = None
    fault: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON."""
        return dataclasses.asdict(self)


class Requests:
    """A recorder of requests, off until `record`.

    Args:
        changed: called when it is turned on or off.
        most: rows kept, the latest.

    Attributes:
        is_on: whether requests are recorded.
    """

    def __init__(self, changed: Callable[[], object], most: int = MOST) -> None:
        self.is_on = False
        self._changed = changed
        self._rows: deque[Recorded] = deque(maxlen=most)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._rows)

    def record(self, on: bool = True) -> None:
        """Starts to record, without rows; or stops, and keeps them."""
        if on and not self.is_on:
            self._rows.clear()
        self.is_on = on
        self._changed()

    def add(self, row: Recorded) -> None:
        """Adds a row; removes the oldest if there are too many."""
        self._rows.append(row)

    def find(self, api: str | None = None, **filters: object) -> list[Recorded]:
        """Returns the rows with these values, oldest first.

            broker.requests.find("JoinGroup", client_id="billing-1", error="NONE")

        Args:
            api: Kafka's name of the API; None for all.
            filters: fields of a row and their values.

        Raises:
            TypeError: a row has no field of that name.
            FaultError: the API, or the error, does not exist.
        """
        wanted = filters if api is None else {"api": api, **filters}
        for name in wanted:
            if name not in Recorded.__slots__:
                there_are = ", ".join(Recorded.__slots__)
                raise TypeError(f"{name} is no field of requests: {there_are}")
        # A misspelt name would pass every assertion that no request was made.
        if api is not None:
            KEYS["api"].check("api", api)
        if (error := filters.get("error")) not in {None, "NONE"}:
            for each in str(error).split(", "):
                KEYS["error"].check("error", each)
        return [
            row
            for row in self._rows
            if all(getattr(row, name) == value for name, value in wanted.items())
        ]
