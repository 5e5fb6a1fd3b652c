"""Makes bench/ importable: `python -m bench.answers` runs from the root."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
