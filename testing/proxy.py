"""Handles of things in the broker, whose methods run in the broker's thread."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from kohort.testing.waiting import Handle, Waits

if TYPE_CHECKING:
    from kohort.testing.thread import BrokerThread

P = ParamSpec("P")
S_co = TypeVar("S_co", covariant=True)
T = TypeVar("T")


class Proxy(Handle, Generic[S_co]):
    """A handle of a thing in the broker."""

    def __init__(self, thread: BrokerThread, waits: Waits, subject: S_co) -> None:
        self._thread = thread
        self._waits = waits
        self._subject = subject


Q = TypeVar("Q", bound=Proxy[Any])


def call(
    method: Callable[Concatenate[S_co, P], T],
) -> Callable[Concatenate[Proxy[S_co], P], T]:
    """A method that calls another one in the broker's thread."""

    @functools.wraps(method)
    def called(self: Proxy[S_co], /, *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        return self._thread.call(method, self._subject, *args, **kwargs)

    return called


def wait(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, object]],
) -> Callable[Concatenate[Q, P], Q]:
    """A method that waits for another one, which runs on the broker's loop."""

    @functools.wraps(method)
    def waited(self: Q, /, *args: P.args, **kwargs: P.kwargs) -> Q:
        __tracebackhide__ = True

        async def work() -> None:
            await method(self._subject, *args, **kwargs)

        words = f"{type(self).__name__.lower()}.{method.__name__.lstrip('_')}(...)"
        return self._waits.begin(copy.copy(self), work(), words)

    return waited
