"""Members that are gone: whether the client was connected, active, and its library."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.testing import Kohort

pytestmark = pytest.mark.kohort(clock="manual")


def expired(kohort: Kohort) -> tuple[Any, Any]:
    """Whether the member that expired last was connected, and active."""
    *_, event = [e for e in kohort.events() if e["kind"] == "member_expired"]
    return event["is_connected"], event["is_active"]


def test_the_connection_of_an_expired_member(kohort: Kohort) -> None:
    """Open: it hangs, or its heartbeats stopped. Closed: it is gone."""
    for is_open in (True, False):
        ana = kohort.member("billing", client_id="ana")
        ana.join()
        ana.sync()
        if not is_open:
            ana.disconnect()
        kohort.clock.advance(46, credit_heartbeats=False)
        assert expired(kohort) == (is_open, False)


def test_another_request_of_an_expired_member(kohort: Kohort) -> None:
    """A request of the same client waits on another connection: it goes on."""
    ana = kohort.member("billing", client_id="ana")
    ana.join()
    ana.sync()
    other = kohort.member("shipping", client_id="ana", session_timeout_ms=1_800_000)
    kohort.group("shipping").hold()
    other.join(wait=False)
    kohort.group("shipping").until(state="PreparingRebalance")
    kohort.clock.advance(46, credit_heartbeats=False)
    assert expired(kohort) == (True, True)


def test_a_member_that_joined_anew_on_its_connection(kohort: Kohort) -> None:
    """Its client has dropped the old id, and the connection is the new one's."""
    ana = kohort.member("billing", client_id="ana", version=3)
    ana.join()
    ana.sync()
    again = ana.join(member_id="", wait=False)
    kohort.group("billing").until(state="PreparingRebalance")
    kohort.clock.advance(46, credit_heartbeats=False)
    again.result()
    assert expired(kohort) == (None, None)


def test_members_that_look_the_same(kohort: Kohort) -> None:
    """It is unknown which of them sent the request."""
    ana = kohort.member("billing", client_id="app", session_timeout_ms=100_000)
    ben = kohort.member("billing", client_id="app")
    ana.join()
    waiting = ben.join(wait=False)
    kohort.group("billing").until(state="PreparingRebalance")
    ana.join()
    waiting.result()
    ana.sync()
    kohort.clock.advance(46, credit_heartbeats=False)
    assert expired(kohort) == (True, None)


def test_the_library_of_a_member_that_leaves(kohort: Kohort) -> None:
    """As its client named it (KIP-511), in ApiVersions."""
    ana = kohort.member("billing", client_id="ana")
    ana.join()
    ana.leave()
    (left,) = [e for e in kohort.events() if e["kind"] == "member_left"]
    assert left["software"] == "kohort"
