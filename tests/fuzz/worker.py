"""Runs one target under atheris, in a separate process: libFuzzer ends it.

    python -m tests.fuzz.worker NAME [libFuzzer's arguments]

Only kohort's modules are instrumented, and the codecs that it generates.
"""

from __future__ import annotations

import builtins
import os
import random
import sys
import types
from typing import Any

import atheris

# As in tests: messages refuse to be changed.
os.environ["KOHORT_FROZEN"] = "1"

GENERATED = "<"
"""First character of the file name of generated code."""
MUTATED = 0.6
"""Share of the mutations that the target makes itself, if it can."""


def _instrument_generated_code() -> None:
    """Instruments the code that kohort generates, which no import loads."""
    make = builtins.compile

    def make_instrumented(source: Any, filename: str, *rest: Any, **more: Any) -> Any:
        made = make(source, filename, *rest, **more)
        if str(filename).startswith(GENERATED) and isinstance(made, types.CodeType):
            return atheris.patch_code(made, trace_dataflow=True)
        return made

    vars(builtins)["compile"] = make_instrumented


def main(name: str, arguments: list[str]) -> None:
    """Fuzzes until libFuzzer's limits; exits the process."""
    # Handlers are imported by the first request for them, so the hooks stay.
    with atheris.instrument_imports(include=["kohort"]):
        _instrument_generated_code()
        from tests.fuzz.targets import target_of

        target = target_of(name)

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
