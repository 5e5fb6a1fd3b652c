"""Clients of other protocols on the HTTP port, and aiohttp's log about them."""

from __future__ import annotations

import logging

from aiohttp.http_exceptions import HttpProcessingError

from kohort.broker import telemetry
from kohort.broker.server import Broker

log = telemetry.Logger("control")


class ServerLog(logging.Logger):
    """aiohttp's logger, without the requests that are not HTTP: clients cause them.

    Kafka's protocol and TLS get a line, once per host.

    Args:
        broker: the broker of the HTTP port.
    """

    def __init__(self, broker: Broker) -> None:
        # At the level of debug, aiohttp logs bytes that are not HTTP.
        super().__init__("kohort.http", logging.DEBUG)
        self.parent = logging.getLogger()
        self._broker = broker

    def filter(self, record: logging.LogRecord) -> bool:
        """True if aiohttp's record is logged."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return record.levelno >= logging.WARNING
        reason = self._reason(error.message)
        host = str(record.args[0]) if isinstance(record.args, tuple) else ""
        if reason and self._broker.cluster.first_times.add(reason, host):
            log.warning("request_refused", client=host, reason=reason)
        return False

    def _reason(self, message: str) -> str:
        """The protocol, by aiohttp's message: it has the first bytes, as Python's."""
        if "HTTPS" in message or r"b'\x16\x03" in message:
            return "TLS on the HTTP port; use http://"
        if r"b'\x00\x00" in message:
            address = self._broker.bootstrap_servers
            return f"Kafka's protocol on the HTTP port; set bootstrap.servers={address}"
        return ""
