"""A request of a step, and the connections that can send it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.conformance import kio_codec
from tests.conformance.connection import Call, Connection
from tests.conformance.env import Env


@dataclass
class Request:
    """A request, before or after it is sent.

    Attributes:
        who: the actor.
        api: for example `JoinGroup`.
        version: of the API.
        fields: as `kio_codec` takes them; those that the version lacks are left out.
        told: shown in place of the fields.
        waits: whether the broker may let it wait for something else.
        call: its result.
    """

    who: str
    api: str
    version: int
    fields: dict[str, Any]
    told: dict[str, Any] | None = None
    waits: bool = False
    call: Call | None = None

    @property
    def sent_fields(self) -> dict[str, Any]:
        """The fields of its version."""
        return kio_codec.fitting(self.api, self.version, self.fields)

    @property
    def is_answered(self) -> bool:
        """True if it was answered, or its connection closed."""
        return self.call is not None and self.call.done


class Connections:
    """The connections of all actors; a request uses one without a waiting request.

    Args:
        env: opens and closes them.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._of: dict[str, list[Connection]] = {}
        self._last: dict[Connection, Call] = {}

    async def send(self, *requests: Request) -> None:
        """Sends requests without a pause, each on a separate connection."""
        taken: list[Connection] = []
        for request in requests:
            taken.append(await self._free(request.who, taken))
        for request, connection in zip(requests, taken, strict=True):
            call = await connection.send(
                request.api, request.version, request.sent_fields
            )
            request.call = self._last[connection] = call

    async def _free(self, who: str, taken: list[Connection]) -> Connection:
        mine = self._of.setdefault(who, [])
        for connection in mine:
            last = self._last.get(connection)
            is_idle = last is None or last.done
            if is_idle and connection not in taken and not connection.is_closed:
                return connection
        connection = await self._env.open(who)
        # After a round trip the broker reads from this connection, so it handles
        # requests in the order in which they were sent.
        await (await connection.send("ApiVersions", 0, {})).wait()
        mine.append(connection)
        return connection

    async def drop(self, who: str) -> None:
        """Closes an actor's connections, as the end of its process does."""
        for connection in self._of.pop(who, []):
            await connection.close()
