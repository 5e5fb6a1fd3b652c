"""The examples in Java, Go and Node pass with the kohort of this environment."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.commands import KOHORT, environment
from tests.workers.libraries import need

pytestmark = pytest.mark.interop

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCS = EXAMPLES.parent / "docs"
LIMIT_S = 600.0
"""A first run fetches dependencies."""
SMALL = "-Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""One compiler and a small heap, as several tests run at once on a small machine."""


def run(folder: Path, *argv: str, **variables: str) -> str:
    """Output of a command that exits 0; otherwise the test fails with it."""
    done = subprocess.run(
        argv,
        cwd=folder,
        env=environment(KOHORT_COMMAND=" ".join(KOHORT), **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{argv} exited {done.returncode}:\n{done.stdout}"
    return done.stdout


@pytest.fixture
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An example's folder, without anything that was built in it."""
    built = shutil.ignore_patterns("target", "node_modules")
    source = EXAMPLES / request.param
    return Path(shutil.copytree(source, tmp_path / request.param, ignore=built))


@pytest.mark.parametrize("copied", ["junit5"], indirect=True)
def test_junit5(copied: Path) -> None:
    """Each verb of the extension; a service exits on a full group (KIP-389)."""
    need("java", "mvn")
    run(copied, "mvn", "-B", "-q", "test", JDK_JAVA_OPTIONS=SMALL)
    reports = {each.name for each in copied.glob("target/surefire-reports/*.txt")}
    assert reports == {"billing.BillingServiceTest.txt", "kohort.KohortTest.txt"}


@pytest.mark.parametrize("copied", ["junit5"], indirect=True)
def test_the_page_about_ci_for_java(copied: Path) -> None:
    """Its workflow's command passes, with its test as the project's only one."""
    need("java", "mvn")
    page = (DOCS / "how-to" / "run-in-ci-for-java.md").read_text()
    (command,) = re.findall(r"- run: kohort (run .*)\n", page)
    ((name, code),) = re.findall(r"```java\n// (\S+)\n(.*?)```", page, re.DOTALL)
    shutil.rmtree(copied / "src" / "test" / "java" / "billing")
    for test in copied.glob("src/test/java/kohort/*Test.java"):
        test.unlink()
    (copied / name).parent.mkdir()
    (copied / name).write_text(code)
    run(copied, *KOHORT, *command.split(), JDK_JAVA_OPTIONS=SMALL)
    (report,) = copied.glob("target/surefire-reports/*.txt")
    assert "Tests run: 1, Failures: 0" in report.read_text()


def test_go() -> None:
    """Each verb of the package; a group of franz-go is held, kicked, moved."""
    need("go")
    run(EXAMPLES / "go", "go", "vet", "./...")
    assert "FAIL" not in run(EXAMPLES / "go", "go", "test", "-count=1", "./...")


@pytest.mark.parametrize("copied", ["node"], indirect=True)
def test_node(copied: Path) -> None:
    """Each verb of the module; a group of kafkajs is held, expired, moved.

    The second run uses a broker that is there.
    """
    need("node", "npm")
    run(copied, "npm", "install")
    assert "# fail 0" in run(copied, "node", "--test")
    beside = (*KOHORT, "run", "--nodes", "2", "--")
    assert "# fail 0" in run(copied, *beside, "node", "--test", "billing.test.js")
