"""Every input of the corpus, every seed, and damaged seeds run without atheris."""

from __future__ import annotations

import contextlib
import functools
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS
from tests.protocol.strategies import mutated

from kohort.protocol.framing import Framer, FrameSizeError
from kohort.protocol.messages import WireError
from kohort.protocol.registry import BY_KEY

MOST_BYTES = 200_000
"""Size of the corpus in the repository, all targets together."""
MUTATIONS = 1
"""Mutations of each seed: a fault in a target's mutator would stop the fuzzer."""
FACTOR = 4
"""Damaged seeds of each target per example of the profile: 60 by default."""


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_and_input_runs(name: str) -> None:
    """A former find stays in the corpus."""
    target = TARGETS[name]
    inputs = [*target.seeds(), *corpus.stored(name)]
    assert inputs
    for data in inputs:
        target.run(data)


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_seeds_run(name: str) -> None:
    """Mutators make inputs from any seed, the same ones every time."""
    target = TARGETS[name]
    if target.mutate is None:
        return
    for data in target.seeds():
        for number in range(MUTATIONS):
            made = target.mutate(data, random.Random(number))
            assert made == target.mutate(data, random.Random(number))
            target.run(made[: target.longest])


@functools.cache
def _seeds(name: str) -> list[bytes]:
    return [*TARGETS[name].seeds()]


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=settings().max_examples * FACTOR, deadline=None)
@given(data=st.data())
def test_damaged_seeds_run(name: str, data: st.DataObject) -> None:
    """Bytes of a seed are changed, cut out, repeated or inserted.

    So no stream makes a handler fail or other clients wait: see `connections`.
    """
    seed = data.draw(st.sampled_from(_seeds(name)))
    TARGETS[name].run(data.draw(mutated(seed))[: TARGETS[name].longest])


@settings(max_examples=settings().max_examples * FACTOR)
@given(data=st.data())
def test_reading_costs_what_came_in(data: st.DataObject) -> None:
    """No length in a request or a frame is trusted before its bytes are there."""
    key, version, _, *body = data.draw(st.sampled_from(_seeds("decoders")))
    damaged = data.draw(mutated(bytes(body)))
    api = BY_KEY[key]

    def read() -> None:
        with contextlib.suppress(WireError):
            api.request(version).decode(damaged, 0, len(damaged))
        with contextlib.suppress(FrameSizeError):
            Framer(1 << 20).feed(damaged)

    read()  # the codec is made on first use
    tracemalloc.start()
    try:
        read()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000 + 100 * len(damaged)


def test_the_corpus_is_small_and_has_no_input_of_no_target() -> None:
    """Each clone of the repository contains it."""
    paths = [*corpus.FOLDER.glob("*")]
    assert {path.stem for path in paths} <= TARGETS.keys()
    assert sum(path.stat().st_size for path in paths) < MOST_BYTES


def test_a_corpus_is_found_as_it_was_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal inputs are stored once."""
    monkeypatch.setattr(corpus, "FOLDER", tmp_path)
    corpus.store("some", [b"longer\0\n", b"", b"", b"\xff"])
    assert corpus.stored("some") == [b"", b"\xff", b"longer\0\n"]
    assert corpus.stored("other") == []
