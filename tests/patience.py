"""How long a test waits for something that must come."""

from __future__ import annotations

from typing import Final

PATIENCE_S: Final = 60.0
"""Limit of one wait. Nothing takes this long, on a busy machine either."""
