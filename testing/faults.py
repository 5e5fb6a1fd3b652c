"""Faults of the broker, from a test in another thread: `kohort.broker.faults.plan`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from kohort.broker.faults.plan import Faults as BrokerFaults

if TYPE_CHECKING:
    from kohort.broker.faults.rule import Rule
    from kohort.testing.thread import BrokerThread

P = ParamSpec("P")
T = TypeVar("T")


def _call(
    method: Callable[Concatenate[BrokerFaults, P], T],
) -> Callable[Concatenate[Faults, P], T]:
    """A method that calls another one in the broker's thread."""

    @functools.wraps(method)
    def call(self: Faults, /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        thread = self.thread
        return thread.call(method, thread.broker.faults, *args, **kwargs)

    return call


class Faults:
    """Rules, and functions, that make the broker fail, delay or disconnect."""

    def __init__(self, thread: BrokerThread) -> None:
        self.thread = thread

    @property
    def rules(self) -> list[Rule]:
        """The rules, in the order in which they were added."""
        return self.thread.read(lambda: self.thread.broker.faults.rules)

    add = _call(BrokerFaults.add)
    remove = _call(BrokerFaults.remove)
    clear = _call(BrokerFaults.clear)
    load = _call(BrokerFaults.load)

    on = _call(BrokerFaults.on)
    off = _call(BrokerFaults.off)
    fail = _call(BrokerFaults.fail)
    delay = _call(BrokerFaults.delay)
    disconnect = _call(BrokerFaults.disconnect)
    swallow = _call(BrokerFaults.swallow)
    throttle = _call(BrokerFaults.throttle)
    duplicate = _call(BrokerFaults.duplicate)
    stale = _call(BrokerFaults.stale)
    corrupt = _call(BrokerFaults.corrupt)
    truncate = _call(BrokerFaults.truncate)
    trickle = _call(BrokerFaults.trickle)
    black_hole = _call(BrokerFaults.black_hole)
    jitter = _call(BrokerFaults.jitter)
