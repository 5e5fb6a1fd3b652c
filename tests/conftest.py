"""What every test shares."""

from __future__ import annotations

import os

# Before anything of kohort is imported: values that nobody may change are
# enforced in tests, and cost nothing when served.
os.environ["KOHORT_FROZEN"] = "1"
