"""Hands the work of requests that change topics to the controller."""

from __future__ import annotations

from kohort.broker import telemetry
from kohort.broker.long_work import Work
from kohort.broker.request import Request

log = telemetry.get_logger("controller")


def submit(request: Request, work: Work) -> None:
    """Hands over the work of a request, which answers the request in the end."""

    def failed(error: Exception) -> None:
        # A defect of ours; the client must not take it for an answer.
        log.error(
            "request_failed",
            api=request.api.name,
            version=request.version,
            exc_info=error,
        )
        request.peer.abort()

    request.node.cluster.controller.submit(work, failed)
