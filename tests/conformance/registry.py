"""The scenarios: every public coroutine function of the modules in `scenarios/`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.conformance.env import Env

ScenarioFunction = Callable[[Env], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """A scenario.

    Attributes:
        name: of its function.
        profile: `PROFILE` of its module; "default" without.
        runs: `RUNS` of its module; 1 without. More than one is for scenarios whose
            outcome depends on which of two requests is handled first: races.
        ordered: `ORDERED` of its module: whether arrays are recorded in their order.
        quirk: `QUIRK` of its module. A quirk is a behaviour of real Kafka that looks
            like a defect: recorded for reference, but no broker should imitate it.
        summary: the function's docstring.
        function: plays it.
    """

    name: str
    profile: str
    runs: int
    ordered: bool
    quirk: bool
    summary: str
    function: ScenarioFunction


def _scenarios_of(module: ModuleType) -> Iterator[Scenario]:
    profile = getattr(module, "PROFILE", "default")
    runs = getattr(module, "RUNS", 1)
    ordered = getattr(module, "ORDERED", False)
    quirk = getattr(module, "QUIRK", False)
    for name, function in inspect.getmembers(module, inspect.iscoroutinefunction):
        if function.__module__ == module.__name__ and not name.startswith("_"):
            summary = " ".join((function.__doc__ or "").split())
            yield Scenario(name, profile, runs, ordered, quirk, summary, function)


def load() -> dict[str, Scenario]:
    """All scenarios by name."""
    found: dict[str, Scenario] = {}
    folder = Path(__file__).parent / "scenarios"
    for module in pkgutil.iter_modules([str(folder)]):
        made = importlib.import_module(f"tests.conformance.scenarios.{module.name}")
        for each in _scenarios_of(made):
            if each.name in found:
                raise ValueError(f"two scenarios are called {each.name}")
            found[each.name] = each
    return found
