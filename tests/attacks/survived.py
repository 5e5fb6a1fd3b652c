"""The attacks that never did harm: each is a generator, see `Attack.program`."""

from __future__ import annotations

from tests.attacks.attack import Attack

SURVIVED: list[Attack] = []
