"""Layers point one way, no imports are circular, pure parts import nothing impure."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = [
    "server",
    "connection",
    "dispatch",
    "handlers",
    "request",
    "cluster",
    "shards",
    "transactions",
    "coordinator",
    "runtime",
    "topics",
]
"""The broker's layers, outermost first."""

IMPURE = {
    "asyncio",
    "concurrent",
    "datetime",
    "logging",
    "multiprocessing",
    "os",
    "random",
    "secrets",
    "select",
    "selectors",
    "signal",
    "socket",
    "structlog",
    "subprocess",
    "threading",
    "time",
    "uuid",
    "uvloop",
}
"""Clocks, random numbers and the outside world."""

DOORS = {"aiohttp", "click", "rich"}
"""HTTP and the terminal."""

MODULES = {
    ".".join(["kohort", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(
        ".__init__"
    ): path
    for folder in (ROOT / "src" / "kohort").iterdir()
    if folder.is_symlink()
    for path in (ROOT / folder.name).rglob("*.py")
}


def is_for_types(node: ast.AST) -> bool:
    """Returns whether this is an ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def statements(node: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    """All statements; including those for type checkers only, if wanted."""
    pending = [node]
    while pending:
        for child in ast.iter_child_nodes(pending.pop()):
            if not isinstance(child, ast.expr) and (types or not is_for_types(child)):
                yield child
                pending.append(child)


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path, *, types: bool = True) -> frozenset[str]:
    """The modules that a file imports: at its top, in functions, and for types."""
    found: set[str] = set()
    for node in statements(parsed(path), types=types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            name = node.module or ""
            # A name that is imported from a package may be a module of it.
            found |= {
                f"{name}.{alias.name}" if f"{name}.{alias.name}" in MODULES else name
                for alias in node.names
            }
    return frozenset(found)


def package(module: str) -> str:
    """The folder of kohort that contains a module; "" for other modules."""
    first, _, rest = module.partition(".")
    return rest.partition(".")[0] if first == "kohort" else ""


def layer(module: str) -> str | None:
    """The broker's layer that a module belongs to."""
    parts = module.split(".")
    found = parts[2] if parts[:2] == ["kohort", "broker"] and len(parts) > 2 else None
    return found if found in LAYERS else None


def reachable(module: str) -> dict[str, str]:
    """The modules that a module imports, also indirectly, and the importer of each."""
    found: dict[str, str] = {}
    pending = [module]
    while pending:
        current = pending.pop()
        for name in imports(MODULES[current]):
            if name in MODULES and name not in found:
                found[name] = current
                pending.append(name)
    return found


def room(module: str) -> str:
    """The folder within a package that contains a module, or the module itself."""
    parts = module.split(".")
    return ".".join(parts[: 3 if ROOT.joinpath(*parts[1:3]).is_dir() else 4])


def circles(name: Callable[[str], str]) -> list[set[str]]:
    """The sets of modules, by any name, that import one another, also indirectly."""
    arrows: dict[str, set[str]] = {name(module): set() for module in MODULES}
    for module, path in MODULES.items():
        found = {name(other) for other in imports(path) if other in MODULES}
        arrows[name(module)] |= found - {name(module)}
    leads_to = {start: closure(arrows, start) for start in arrows}
    sets = {
        frozenset(other for other in reached if start in leads_to[other])
        for start, reached in leads_to.items()
        if start in reached
    }
    return [set(each) for each in sets]


def closure(arrows: dict[str, set[str]], start: str) -> set[str]:
    """The names that a name leads to."""
    found: set[str] = set()
    pending = [start]
    while pending:
        fresh = arrows[pending.pop()] - found
        found |= fresh
        pending += fresh
    return found


def test_the_modules_are_found() -> None:
    """The other scenes have something to check."""
    assert {"kohort.protocol.messages", "kohort.control.cli"} <= set(MODULES)
    assert layer("kohort.broker.coordinator.classic.join") == "coordinator"
    assert "kohort.broker.config" in imports(MODULES["kohort.broker.server"])
    assert package("kohort.control.cli") == "control"


def test_no_modules_import_one_another() -> None:
    """Neither at run time, nor in functions, nor for types; nor do folders."""
    assert not circles(str)
    assert not circles(room)


def test_the_architecture_page_names_files_that_exist() -> None:
    """The page has to change with the modules."""
    page = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"\b(?:[a-z_]+/)+[a-z_0-9]+\.py\b", page))
    assert len(named) > 10
    folders = [ROOT, ROOT / "broker"]
    for file in named:
        assert any((folder / file).exists() for folder in folders), file


def test_the_wire_imports_nothing_of_ours() -> None:
    """protocol/ could be a separate distribution."""
    for module, path in MODULES.items():
        if package(module) == "protocol":
            ours = {package(name) for name in imports(path)} - {""}
            assert ours <= {"protocol"}, module


def test_broker_and_client_do_not_know_each_other() -> None:
    """Each of them depends on the wire only."""
    for module, path in MODULES.items():
        if package(module) in {"broker", "client"}:
            ours = {package(name) for name in imports(path)} - {""}
            assert ours <= {"protocol", package(module)}, module


def test_control_and_testing_are_the_outer_layers() -> None:
    """They depend on the broker and the client; testing also depends on control.

    So does the simulation; two commands of control depend on it, and one of them on
    the pipeline.
    """
    below = {"broker", "client", "protocol"}
    plays = {
        "kohort.control.commands.simulate": {"simulation"},
        "kohort.control.commands.sweep": {"simulation", "pipeline"},
    }
    for module, path in MODULES.items():
        ours = {package(name) for name in imports(path)} - {""}
        if package(module) == "testing":
            assert ours <= {*below, "control", "testing"}, module
        elif module in plays:
            assert ours <= {*below, "control", *plays[module]}, module
        elif package(module) == "control":
            assert ours <= {*below, "control"}, module
        elif package(module) == "simulation":
            assert ours <= {*below, "simulation"}, module
        else:
            assert not ours & {"control", "simulation", "testing"}, module


@pytest.mark.parametrize("own", LAYERS)
def test_the_brokers_layers_point_inward(own: str) -> None:
    """No layer imports one further out, even indirectly."""
    outer = set(LAYERS[: LAYERS.index(own)])
    members = [module for module in MODULES if layer(module) == own]
    assert members
    for module in members:
        for name, importer in reachable(module).items():
            assert layer(name) not in outer, f"{module} -> {importer} -> {name}"


def test_the_rooms_of_group_protocols_are_apart() -> None:
    """A protocol knows what all groups share, and no other; only one file joins them.

    A group can change its protocol: `migration` knows both. So a further protocol is a
    further folder, and a line in the coordinator.
    """
    shared = "kohort.broker.coordinator"
    joins = f"{shared}.coordinator"
    between = f"{shared}.migration"
    rooms = {
        f"{shared}.{folder.name}"
        for folder in (ROOT / "broker" / "coordinator").iterdir()
        if (folder / "__init__.py").exists()
    }
    assert f"{shared}.classic" in rooms

    def room_of(module: str) -> str | None:
        found = (name for name in rooms if f"{module}.".startswith(f"{name}."))
        return next(found, None)

    for module, path in MODULES.items():
        if module.startswith(f"{shared}.") and module != joins:
            known = {room_of(name) for name in imports(path)} - {None}
            assert room_of(module) == between or known <= {room_of(module)}, module
            assert joins not in imports(path), module


def test_the_coordinators_are_pure() -> None:
    """They use no clock, random numbers, socket or log, even indirectly."""
    pure = {"coordinator", "transactions"}
    beside = {"kohort.broker.notice", "kohort.broker.patterns"}
    for module in MODULES:
        if layer(module) in pure:
            files = [module, *reachable(module)]
            for name in files:
                foreign = {n.partition(".")[0] for n in imports(MODULES[name])}
                if layer(name) in {*pure, "runtime"} or name in beside:
                    # Also the runtime's pure modules: those that perform effects import
                    # a clock, which is neither this nor the wire.
                    assert not foreign & IMPURE, name
                else:
                    # The wire reads one variable of the environment.
                    assert package(name) == "protocol", f"{module} -> {name}"


def test_the_members_side_of_the_group_is_pure() -> None:
    """Members and assignors need no clock, random numbers, socket or task."""
    pure = {
        module
        for module in MODULES
        if module.startswith(("kohort.client.group.", "kohort.client.assignors"))
    } - {f"kohort.client.group.{room}driver" for room in ("", "classic.", "consumer.")}
    assert "kohort.client.group.classic.membership" in pure
    assert "kohort.client.group.consumer.membership" in pure
    pure |= {name for module in pure for name in reachable(module)}
    for name in pure:
        foreign = {n.partition(".")[0] for n in imports(MODULES[name])}
        if package(name) == "client":
            assert not foreign & IMPURE, name
        else:
            assert package(name) == "protocol", name


def test_what_all_groups_share_knows_no_protocol() -> None:
    """A member's protocol is a room; the consumer alone chooses among them."""
    shared = "kohort.client.group"
    rooms = {f"{shared}.{path.name}" for path in (ROOT / "client/group").glob("*/")}
    assert f"{shared}.classic" in rooms
    users = {
        module
        for module, path in MODULES.items()
        if package(module) == "client"
        and not module.startswith(tuple(rooms))
        and any(name.startswith(tuple(rooms)) for name in imports(path))
    }
    assert users == {"kohort.client.consuming.consumer_group"}
    for room in rooms:
        for module, path in MODULES.items():
            if module.startswith(f"{room}."):
                others = tuple(rooms - {room})
                assert not any(name.startswith(others) for name in imports(path))


@pytest.mark.parametrize(
    ("room", "others"),
    [
        ("kohort.broker.events.account", {"kohort.broker.events.words"}),
        (
            "kohort.broker.events.findings",
            {
                f"kohort.broker.events.{name}"
                for name in ("account", "delivery_words", "words")
            },
        ),
        (
            "kohort.broker.events.delivery",
            {
                f"kohort.broker.events.{name}"
                for name in ("account", "delivery_words", "seen", "sources")
            }
            | {"kohort.broker.notice"},
        ),
        (
            "kohort.control.why",
            {
                f"kohort.broker.events.{name}"
                for name in ("account", "findings", "words")
            },
        ),
    ],
)
def test_accounts_and_explanations_are_pure(room: str, others: set[str]) -> None:
    """They depend on events only: no clock, random numbers, terminal or HTTP."""
    allowed = (room, *others)
    for module, path in MODULES.items():
        if not f"{module}.".startswith(f"{room}."):
            continue
        for name in imports(path):
            assert name.partition(".")[0] not in IMPURE | DOORS, module
            if package(name):
                own = [each for each in allowed if f"{name}.".startswith(f"{each}.")]
                assert own, f"{module} -> {name}"


def test_the_pipeline_reads_data_alone() -> None:
    """It needs the client for the id of a topic; only one command needs it."""
    for module, path in MODULES.items():
        ours = {package(name) for name in imports(path)} - {""}
        if package(module) == "pipeline":
            assert ours <= {"pipeline", "client"}, module
        elif module != "kohort.control.commands.sweep":
            assert "pipeline" not in ours, module


def test_construct_stays_in_one_file() -> None:
    """The readable form of the wire is not imported to serve, as it is slow."""
    users = {
        module
        for module, path in MODULES.items()
        if any(n.partition(".")[0] == "construct" for n in imports(path, types=False))
    }
    assert users == {"kohort.protocol.primitives"}


def test_the_broker_is_a_library_without_a_command_line() -> None:
    """It prints nothing and reads no arguments: commands belong to control."""
    for module, path in MODULES.items():
        if package(module) in {"broker", "client", "protocol", "simulation"}:
            foreign = {name.partition(".")[0] for name in imports(path)}
            assert not foreign & {"argparse", "click", "rich"}, module
