"""What every test shares."""

from __future__ import annotations

import os

from hypothesis import settings

# Before anything of kohort is imported: values that nobody may change are
# enforced in tests, and cost nothing when served.
os.environ["KOHORT_FROZEN"] = "1"

# HYPOTHESIS_PROFILE=ci looks longer. Deadlines would measure the machine.
settings.register_profile("kohort", deadline=None, max_examples=15)
settings.register_profile("ci", deadline=None, max_examples=75, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "kohort"))
