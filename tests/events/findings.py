"""Verbs of scenes about findings."""

from __future__ import annotations

from tests.events.build import Stream

from kohort.control.why import Finding, history


def findings(stream: Stream) -> dict[str, Finding]:
    """The findings of a stream, by code."""
    return {each.code: each for each in history(stream.events, "g").findings}


def quiet(
    *names: str, protocol: str = "range", static: bool = False, connected: bool = False
) -> Stream:
    """A group that is Stable, with four partitions for each member."""
    stream = Stream(protocol=protocol)
    for number, name in enumerate(names, 1):
        connection = number if connected else None
        instance = f"i-{name}" if static else None
        stream.comes(name, instance, connection=connection)
    owned = {n: range(i * 4, i * 4 + 4) for i, n in enumerate(names)}
    stream.rebalance("member_joined", names[0], window_s=3, joins={}, owned=owned)
    stream.wait(600)
    return stream
