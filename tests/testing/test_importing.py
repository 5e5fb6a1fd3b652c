"""The cost of kohort for test suites that do not use it."""

from __future__ import annotations

import subprocess
import sys


def imported(*modules: str) -> set[str]:
    """The modules that come with these, beside pytest's."""
    code = (
        "import sys, pytest; before = set(sys.modules);"
        f"import {', '.join(modules)}; print(*(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_plugin_imports_nothing_but_itself() -> None:
    """Neither the broker nor asyncio: pytest imports the plugin in every test run."""
    found = imported("kohort.testing.plugin", "kohort.testing")
    assert found == {"kohort", "kohort.testing", "kohort.testing.plugin"}


def test_a_broker_needs_neither_client_nor_http() -> None:
    """They take longer to load than the broker, and few tests need them."""
    found = imported("kohort.testing.starting")
    assert "kohort.broker.server" in found
    packages = {name.partition(".")[0] for name in found}
    assert not packages & {"aiohttp", "click", "construct", "rich", "structlog"}
    assert "kohort.client" not in found
