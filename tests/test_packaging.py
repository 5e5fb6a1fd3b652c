"""Packaging: the links, the wheel, and the other files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINKS = ROOT / "src" / "kohort"
NO_PACKAGES = {"bench", "build", "dist", "docs", "examples", "src", "tests"}


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package's sources, as building leaves files behind."""
    copy = tmp_path_factory.mktemp("source")
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    folders = [link.name for link in LINKS.iterdir() if link.is_symlink()]
    for folder in ("src", "tests", *folders):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "interop")
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=ignored)
    return copy


def build(kind: str, source: Path, target: Path) -> Path:
    """A wheel or sdist of a source tree, as pip builds it, without a network."""
    target.mkdir()
    code = (
        f"from setuptools import build_meta; build_meta.build_{kind}({str(target)!r})"
    )
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, text=True)
    (built,) = target.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    return build("wheel", source, tmp_path_factory.mktemp("wheel") / "dist")


def contents(wheel: Path) -> set[str]:
    """The names of the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_each_folder_is_linked_into_the_package() -> None:
    """src/kohort has links to exactly the package folders at the root."""
    links = {path.name for path in LINKS.iterdir() if path.is_symlink()}
    folders = {
        path.parent.name
        for path in ROOT.glob("*/__init__.py")
        if path.parent.name not in NO_PACKAGES
    }
    assert links == folders
    assert {
        "protocol",
        "broker",
        "client",
        "control",
        "pipeline",
        "simulation",
        "testing",
    } <= links
    for name in links:
        assert (LINKS / name).readlink() == Path("..") / ".." / name
        assert (ROOT / name / "py.typed").is_file()


@pytest.mark.long
def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    """It has all modules, type markers and assets; no tests."""
    names = contents(wheel)
    modules = {
        f"kohort/{path.relative_to(ROOT)}"
        for link in LINKS.iterdir()
        if link.is_symlink()
        for path in (ROOT / link.name).rglob("*")
        if path.suffix in {".py", ".sql", ".toml"}
        or path.name == "py.typed"
        or path.parent.name in {"assets", "templates"}
        or path.name == "event_schema.json"
    } | {"kohort/__init__.py", "kohort/__main__.py", "kohort/py.typed"}
    packaged = {name for name in names if ".dist-info/" not in name}
    assert packaged == modules
    assert "kohort/protocol/apis/k11_join_group.py" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    (entries,) = (name for name in names if name.endswith("entry_points.txt"))
    with zipfile.ZipFile(wheel) as archive:
        assert b"[pytest11]\nkohort = kohort.testing.plugin" in archive.read(entries)


@pytest.mark.long
def test_the_wheel_of_the_sdist_is_the_same(
    source: Path, wheel: Path, tmp_path: Path
) -> None:
    """A wheel from the sdist has the same files; links became folders."""
    sdist = build("sdist", source, tmp_path / "sdist")
    shutil.unpack_archive(sdist, tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    again = build("wheel", unpacked, tmp_path / "wheel")
    assert contents(again) == contents(wheel)


@pytest.mark.long
def test_the_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    """The package works where pip installs it."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    environment = {n: v for n, v in os.environ.items() if not n.startswith("KOHORT_")}
    environment["PYTHONPATH"] = str(tmp_path)
    code = (
        "import kohort.control.cli, kohort.control.http.server;"
        "import kohort.protocol.registry as r;"
        "print(kohort.__file__, len([a.request(a.newest) for a in r.APIS]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    file, count = done.stdout.split()
    assert Path(file).is_relative_to(tmp_path)
    assert int(count) >= 30


def test_the_version_is_in_the_changelog(project: dict[str, dict[str, str]]) -> None:
    """The changelog has an entry for the current version."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert f"\n## {project['project']['version']}" in changelog
    compose = (ROOT / "docker-compose.yml").read_text()
    assert f"image: kohort:{project['project']['version']}" in compose


def commands() -> list[str]:
    """The two commands of the README."""
    readme = (ROOT / "README.md").read_text()
    return re.findall(r"^```sh\n(.*)\n```$", readme, re.MULTILINE)


def test_the_readme_has_two_commands() -> None:
    """One line each: install and see the demo; install and run the tests."""
    demo, test = commands()
    assert demo.endswith("kohort demo")
    assert "--clear" in test
    assert "pytest" in test


def test_the_links_of_the_documents_lead_somewhere() -> None:
    """No document links to a missing file."""
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert documents
    for document in documents:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_ci_can_run() -> None:
    """.ci/run is executable; it and its functions are valid for bash."""
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    for name in ("run", "steps.sh"):
        subprocess.run(["bash", "-n", ROOT / ".ci" / name], check=True)
