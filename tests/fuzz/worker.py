"""Runs one target under atheris, in a process of its own: libFuzzer ends it.

    python -m tests.fuzz.worker NAME [libFuzzer's arguments]

Only kohort's modules are instrumented, and the codecs that it generates.
"""

from __future__ import annotations

import os
import random
import sys
import types
from typing import Any

import atheris

# As in tests: messages refuse to be changed.
os.environ["KOHORT_FROZEN"] = "1"

MUTATED = 0.6
"""Share of the mutations that the target makes itself, if it makes any."""


def _instrument_codecs() -> None:
    """Instruments generated functions when they are made: no import brings them."""
    from kohort.protocol.messages import Codec  # noqa: PLC0415 - once hooks are set

    make = Codec.__init__

    def make_instrumented(codec: Codec, *args: Any) -> None:
        make(codec, *args)
        for made in codec.encode.__globals__.values():
            if isinstance(made, types.FunctionType) and _is_generated(made):
                atheris.instrument_func(made)

    type.__setattr__(Codec, "__init__", make_instrumented)


def _is_generated(made: types.FunctionType) -> bool:
    return made.__code__.co_filename.startswith("<")


def main(name: str, arguments: list[str]) -> None:
    """Fuzzes until libFuzzer's limits; exits the process."""
    # Handlers are imported by the first request for them, so the hooks stay.
    with atheris.instrument_imports(include=["kohort"]):
        _instrument_codecs()
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - see above

        target = TARGETS[name]

        def mutate(data: bytes, limit: int, seed: int) -> bytes:
            chance = random.Random(seed)
            if target.mutate is not None and chance.random() < MUTATED:
                made = target.mutate(data, chance)
                if len(made) <= limit:
                    return made
            return bytes(atheris.Mutate(data, limit))

        atheris.Setup([sys.argv[0], *arguments], target.run, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
