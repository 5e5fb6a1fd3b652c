"""Packs a file of events for its page, with the accounts and the words about them."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kohort.broker.events import SCHEMA_VERSION
from kohort.broker.events.account import Account, UnreadAccount
from kohort.broker.events.account.flow import ACCOUNTS
from kohort.broker.events.account.values import key_of
from kohort.broker.events.schema import COMMON
from kohort.control.timeline.page import Page, file_page
from kohort.control.why.history import histories

GZIP_BITS: Final = zlib.MAX_WBITS + 16
"""``wbits`` of zlib: its largest window, in gzip's format."""


class Packing:
    """Packs and explains events while they are read, once.

    A stream that was cut off, or has a rebalance under way, ends before the account of
    its last rebalance: the page gets that account as an event without a sequence.

    Args:
        lines: (JSON, event) of each event; runs one after the other.

    Attributes:
        count: how many events there are.
        groups: whether one of them is about a group.
    """

    def __init__(self, lines: Iterable[tuple[bytes, dict[str, Any]]]) -> None:
        self._bytes = io.BytesIO()
        # gzip's format, without a name or a time: the same events make the same page.
        self._gzip = zlib.compressobj(6, wbits=GZIP_BITS)
        self.count = 0
        self._accounts: set[str] = set()
        found = histories(self._each(lines))
        self.groups = bool(found)
        self._findings: dict[str, list[dict[str, Any]]] = {}
        for group, history in found.items():
            if history.findings:
                self._findings[group] = [each.as_json() for each in history.findings]
            accounts: list[Account | UnreadAccount] = [*history.rebalances]
            accounts += history.facts.quiet
            for account in accounts:
                if account.key not in self._accounts:
                    event = event_of(account)
                    if isinstance(account, Account):
                        event["words"] = history.explain(account)
                    self._add(json.dumps(event).encode())

    def page(self, name: str) -> Page:
        """The page, of a file with this name; nothing can be added any more."""
        self._bytes.write(self._gzip.flush())
        events = base64.b64encode(self._bytes.getbuffer()).decode()
        return file_page(events, name=name, findings=self._findings)

    def _add(self, line: bytes) -> None:
        self._bytes.write(self._gzip.compress(line + b"\n"))

    def _each(
        self, lines: Iterable[tuple[bytes, dict[str, Any]]]
    ) -> Iterator[dict[str, Any]]:
        for text, event in lines:
            self._add(text)
            self.count += 1
            if event["kind"] in ACCOUNTS:
                self._accounts.add(key_of(event))
            yield event


def event_of(account: Account | UnreadAccount) -> dict[str, Any]:
    """An account as the event that carries it, but for its sequence and labels."""
    names = (field.name for field in COMMON if hasattr(account, field.name))
    return {
        **{name: getattr(account, name) for name in names},
        "schema": SCHEMA_VERSION,
        "kind": account.kind,
        "time_ns": account.settled_ns,
        "wall_ns": account.settled_ns,
        **account.own_fields(),
    }
