"""Every input of the corpus, and every seed, runs without atheris."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS

MOST_BYTES = 200_000
"""Size of the corpus in the repository, all targets together."""
MUTATIONS = 1
"""Mutations of each seed: a fault in a target's mutator would stop the fuzzer."""


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
