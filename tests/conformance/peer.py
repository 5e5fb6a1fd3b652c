"""Named connections that record their traffic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.connection import Call, Connection, Outcome
from tests.conformance.symbols import note_literals
from tests.conformance.transcript import Transcript
from tests.patience import PATIENCE_S


class Pending:
    """A recorded request; its response is collected later."""

    def __init__(
        self,
        transcript: Transcript,
        who: str,
        label: str,
        call: Call,
        absorb: Callable[[Outcome], None] | None = None,
        edit: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._transcript = transcript
        self._who = who
        self.label = label
        self._call = call
        self._absorb = absorb
        self._edit = edit

    async def outcome(self, timeout: float) -> tuple[Outcome, dict[str, Any]]:
        """Waits for the response; returns (its end, its part of an event)."""
        outcome = await self._call.wait(timeout)
        event: dict[str, Any] = {}
        if outcome.body is not None:
            if self._edit:
                self._edit(outcome.body)
            if self._call.api in ("JoinGroup", "ConsumerGroupHeartbeat"):
                self._transcript.symbols.name_member(
                    outcome.body.get("member_id") or "", self._who
                )
            event["response"] = outcome.body
        else:
            event["response"] = outcome.status
            if outcome.detail:
                event["detail"] = outcome.detail
        if self._absorb:
            self._absorb(outcome)
        return outcome, event

    async def result(self, timeout: float = PATIENCE_S) -> Outcome:
        """Waits for the response and records it."""
        outcome, event = await self.outcome(timeout)
        self._transcript.add(recv=self.label, **event)
        return outcome

    async def within(self, low: float, high: float) -> Outcome:
        """Like result, and records whether it came in [low, high) seconds."""
        outcome, event = await self.outcome(high + 10)
        if low <= outcome.elapsed < high:
            after = f"[{low:g} s, {high:g} s)"
        else:
            after = f"{outcome.elapsed:.3f} s, expected [{low:g} s, {high:g} s)"
        self._transcript.add(recv=self.label, after=after, **event)
        return outcome

    async def unanswered(self, seconds: float = 0.5) -> None:
        """Records that no response comes for some time."""
        outcome = await self._call.wait(seconds)
        self._transcript.add(
            check=f"{self.label} unanswered", result=outcome.status == "timeout"
        )

    @property
    def answered(self) -> bool:
        """True if the request has ended."""
        return self._call.done


class Peer:
    """A named connection that records its traffic."""

    def __init__(
        self, transcript: Transcript, name: str, connection: Connection
    ) -> None:
        self._transcript = transcript
        self.name = name
        self.connection = connection
        self._sends = 0

    async def send(
        self,
        api: str,
        version: int,
        *,
        who: str | None = None,
        absorb: Callable[[Outcome], None] | None = None,
        edit: Callable[[dict[str, Any]], None] | None = None,
        **fields: Any,
    ) -> Pending:
        """Sends without waiting; `edit` may change the response in place."""
        if not self._transcript.is_muted:
            self._sends += 1
        label = f"{who or self.name} {api}/{version} #{self._sends}"
        note_literals(fields, self._transcript.symbols)
        self._transcript.add(send=label, request=fields)
        call = await self.connection.send(api, version, fields)
        return Pending(self._transcript, who or self.name, label, call, absorb, edit)

    async def call(
        self,
        api: str,
        version: int,
        *,
        who: str | None = None,
        absorb: Callable[[Outcome], None] | None = None,
        edit: Callable[[dict[str, Any]], None] | None = None,
        timeout: float = PATIENCE_S,
        **fields: Any,
    ) -> Outcome:
        """Sends and waits; recorded as one event."""
        label = f"{who or self.name} {api}/{version}"
        note_literals(fields, self._transcript.symbols)
        call = await self.connection.send(api, version, fields)
        pending = Pending(self._transcript, who or self.name, label, call, absorb, edit)
        outcome, event = await pending.outcome(timeout)
        self._transcript.add(call=label, request=fields, **event)
        return outcome

    async def call_body(
        self,
        note: str,
        api: str,
        version: int,
        body: bytes,
        *,
        edit: Callable[[dict[str, Any]], None] | None = None,
        timeout: float = PATIENCE_S,
        **header: Any,
    ) -> Outcome:
        """Sends hand-made bytes; the transcript has `note` for the request."""
        call = await self.connection.send_body(api, version, body, **header)
        pending = Pending(self._transcript, self.name, note, call, edit=edit)
        outcome, event = await pending.outcome(timeout)
        self._transcript.add(call=f"{self.name} {note}", **event)
        return outcome

    async def raw(self, note: str, data: bytes, wait: float = 2.0) -> None:
        """Sends bytes that are no request, and records whether that closes it."""
        await self.connection.send_raw(data)
        closed = await self.connection.wait_closed(wait)
        unclaimed = len(self.connection.unclaimed)
        self._transcript.add(
            raw=f"{self.name} {note}",
            response="closed" if closed else "open",
            **({"frames": unclaimed} if unclaimed else {}),
        )

    async def is_closed(self, wait: float = 2.0) -> None:
        """Records whether the broker closes the connection."""
        closed = await self.connection.wait_closed(wait)
        self._transcript.add(check=f"{self.name} is closed", result=closed)

    async def drop(self) -> None:
        """Closes the connection from this side."""
        self._transcript.add(do=f"{self.name} closes the connection")
        await self.connection.close()
