"""Stops a process before one of its changes to a lake, as a kill would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kohort.pipeline.lake import Lake


class KilledError(BaseException):
    """Stands for the end of the process by a kill."""


@contextmanager
def killed_at(lake: Lake, step: int, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Raises at the change with this number: a written table or file, or a removal."""
    steps = iter(range(step))

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **more: Any) -> Any:
            if next(steps, None) is None:
                raise KilledError
            return change(*arguments, **more)

        return run

    with patch.context() as patched:
        for owner, name in (
            (lake.engine, "write"),
            (lake, "write_text"),
            (lake, "remove"),
        ):
            patched.setattr(owner, name, counted(getattr(owner, name)))
        yield
