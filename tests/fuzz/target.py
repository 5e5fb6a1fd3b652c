"""A fuzz target: a function of bytes that raises if kohort has a fault."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import NamedTuple

LONGEST = 4096
"""Bytes of an input: longer ones find nothing more, and are slower."""


class Target(NamedTuple):
    """A fuzz target.

    Attributes:
        run: takes one input. It raises nothing for an input that kohort reads or
            refuses as documented, whatever the bytes are.
        seeds: makes the inputs that fuzzing starts from, in addition to the corpus.
        mutate: changes an input and keeps it well-formed. The fuzzer's own mutations
            are used in turn with it.
        longest: limit of an input in bytes.
        weight: share of the total time.
    """

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    mutate: Callable[[bytes, random.Random], bytes] | None = None
    longest: int = LONGEST
    weight: int = 1
