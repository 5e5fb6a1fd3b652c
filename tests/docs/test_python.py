"""The Python of the pages runs."""

from __future__ import annotations

import ast
import asyncio
import doctest
import inspect
import re
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any, Final

import pytest
from tests.docs import stage
from tests.docs.blocks import BLOCKS, ROOT, Block, blocks, each
from tests.patience import PATIENCE_S

SHOWN: Final = [
    path.read_text()
    for folder in ("tests/clients_table/reproductions", "protocol/apis")
    for path in (ROOT / folder).glob("*.py")
]
"""Files of which pages show a part, or all; other tests run them."""
_FILE: Final = re.compile(r"# ([\w/]+\.py)\n")
PYTHON: Final = [
    block
    for block in blocks("python")
    if not any(block.text.strip() in text for text in SHOWN)
]
TESTS: Final = [b for b in PYTHON if "def test_" in b.text or _FILE.match(b.text)]
SESSIONS: Final = [b for b in PYTHON if b.text.startswith(">>> ")]
PROGRAMS: Final = [b for b in PYTHON if b not in TESTS and b not in SESSIONS]
SLOW_TO_IMPORT: Final = (
    "aiokafka",
    "kohort.control.why",
    "kohort.testing.member",
    "kohort.testing.starting",
)
QUIETLY: Final = [
    *(f"-pno:{name}" for name in ("hypothesispytest", "schemathesis")),
    "-oasyncio_default_fixture_loop_scope=function",  # else pytest-asyncio warns
]
SUITES: Final = sorted({block.page for block in TESTS})


def wanted(code: ast.AST) -> set[str]:
    """The names that code uses without making them."""
    names = [node for node in ast.walk(code) if isinstance(node, ast.Name)]
    made = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return {name.id for name in names} - made


def in_daemon(code: CodeType, names: dict[str, Any]) -> Future[None]:
    """Runs blocking code in a thread that cannot keep the tests from ending."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            exec(code, names)
        except BaseException as error:  # noqa: BLE001 - it is raised in the test
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    return future


@each(PROGRAMS)
async def test_a_block_runs(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block runs alone, with the names of `stage`, at a separate broker."""
    parsed = ast.parse(block.text)
    async with asyncio.timeout(PATIENCE_S), stage.names(wanted(parsed), block) as names:
        server = names.get("kohort") or names["broker"]
        address = server.bootstrap_servers
        stage.connect_to(address, monkeypatch)
        text = block.text
        for printed in stage.ADDRESSES:
            text = text.replace(printed, address.split(",")[0])
        code: Any = compile(
            text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        if code.co_flags & inspect.CO_COROUTINE:
            await eval(code, names)
        elif "broker" in names:
            exec(code, names)  # calls on the broker's event loop
        else:
            await asyncio.wrap_future(in_daemon(code, names))


@each(SESSIONS)
def test_a_session_prints_what_it_shows(block: Block) -> None:
    """A session of the interpreter."""
    test = doctest.DocTestParser().get_doctest(block.text, {}, str(block), None, 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def needs(text: str) -> str:
    """The imports that a test leaves out, where it is only a part of a file."""
    modules = {"asyncio", "pytest", "sys"}
    code = ast.parse(text)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(code)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    missing = (wanted(code) & {*modules, "running", "service"}) - imported
    lines = [f"import {name}" for name in sorted(missing & modules)]
    if "service" in missing:
        lines.append("from tests.docs.stage import service")
    if "running" in missing:
        lines.append("from kohort.testing import running")
    return "\n".join([*lines, ""])


def play(
    page: str, pytester: pytest.Pytester, changes: Sequence[tuple[str, str]] = ()
) -> dict[str, int]:
    """Runs the tests of a page, put together from its blocks, in an empty folder.

    Args:
        page: the page. A test without a file is one, too.
        pytester: runs them.
        changes: texts of the page, and what replaces them.

    Returns:
        How many passed, failed, and so on; and how many there are at least.
    """
    files: dict[str, str] = {}
    for number, block in enumerate(b for b in TESTS if b.page == page):
        found = _FILE.match(block.text)
        name = found[1] if found else f"test_{number}.py"
        files[name] = files.get(name, "") + block.text
    for name, text in files.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        whole = needs(text) + text
        for old, new in changes:
            assert old in whole
            whole = whole.replace(old, new)
        path.write_text(whole)
    # pytester forgets the modules that a suite imports, and loads all plugins.
    for name in SLOW_TO_IMPORT:
        import_module(name)
    result = pytester.runpytest_inprocess("--strict-markers", "-q", *QUIETLY)
    count = sum(text.count("def test_") for text in files.values())
    return {**result.parseoutcomes(), "count": count}


@pytest.mark.parametrize("page", SUITES)
def test_the_tests_of_a_page_pass(
    page: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files, put together from its blocks."""
    # Programs that tests start find the page's modules, too.
    monkeypatch.syspath_prepend(pytester.path)
    outcomes = play(page, pytester)
    assert outcomes.keys() == {"passed", "count"}
    # A test with parameters counts more than once.
    assert outcomes["passed"] >= outcomes["count"]


_REVOCATION: Final = "docs/how-to/test-a-commit-on-revocation.md"
_HANDLES: Final = "            await handle(order)\n"
_CARELESS: Final = ("heartbeat_interval_ms=50", "enable_auto_commit=False")
_SEVEN_OF_TEN: Final = """\
            await handle(order)
            if order.offset == 6:
                await consumer.commit({(order.topic, order.partition): 7})
"""


@pytest.mark.parametrize(
    ("page", "changes"),
    [
        ("README.md", [_CARELESS]),
        ("README.md", [_CARELESS, (_HANDLES, _SEVEN_OF_TEN)]),
        (_REVOCATION, [("await self.consumer.commit()", "pass")]),
        (_REVOCATION, [("if revoked:", "if len(revoked) > 2:")]),
    ],
)
def test_a_service_that_breaks_an_assertion_fails_it(
    page: str, changes: Sequence[tuple[str, str]], pytester: pytest.Pytester
) -> None:
    """The printed tests are no decoration."""
    outcomes = play(page, pytester, changes)
    assert outcomes.keys() == {"failed", "count"}


def test_the_runner_finds_blocks() -> None:
    """Else nothing of the above would be tested."""
    assert len(PROGRAMS) > 20
    assert len(SUITES) > 1
    assert {block.page for block in BLOCKS} > {"README.md", "CONTRIBUTING.md"}
    assert all(Path(ROOT, block.page).is_file() for block in BLOCKS)
