"""The list of APIs, and when modules are loaded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map
from tests.protocol.strategies import every_api

import kohort.protocol.apis
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import API_VERSIONS, APIS, BY_KEY, BY_NAME, Api

ROOT = Path(__file__).parents[2]


def test_names_are_kafkas() -> None:
    """Keys and names match kio's index."""
    for api in APIS:
        snake = re.sub("(?<!^)(?=[A-Z])", "_", api.name).lower()
        assert api_key_map[api.key] == snake
        assert api.module_name.endswith(f".k{api.key:02}_{snake}")
        assert BY_KEY[api.key] is BY_NAME[api.name] is api
    assert BY_KEY[API_VERSIONS].name == "ApiVersions"
    assert [api.key for api in APIS] == sorted({api.key for api in APIS})


def test_every_module_of_apis_is_listed() -> None:
    """Every declared API is listed."""
    found = {path.stem for path in Path(kohort.protocol.apis.__path__[0]).glob("k*.py")}
    assert found == {api.module_name.rpartition(".")[2] for api in APIS}


@every_api
def test_a_modules_header_tells_its_versions(api: Api) -> None:
    """An API module's docstring agrees with the registry."""
    said = " ".join((api.module.__doc__ or "").split())
    assert f"{api.name}, API key {api.key}." in said
    flexible = (
        "never flexible" if api.flexible is None else f"flexible from v{api.flexible}"
    )
    assert f"Versions {api.oldest} to {api.newest}, {flexible}." in said


def test_produce_is_advertised_from_version_0() -> None:
    """Clients with librdkafka before 2.0 expect versions that Kafka refuses."""
    advertised = {
        api.name: api.advertised for api in APIS if api.advertised != api.oldest
    }
    assert advertised == {"Produce": 0}


def _modules_after(code: str) -> set[str]:
    """The modules loaded in a new interpreter after some code."""
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(shown.stdout.split())


def test_nothing_is_loaded_before_it_is_used() -> None:
    """The registry loads no API; one codec loads one API, and no construct."""
    loaded = _modules_after("import kohort.protocol.registry")
    assert not {m for m in loaded if m.startswith("kohort.protocol.apis")}
    assert not loaded & {"construct", "inspect", "dataclasses", "asyncio"}

    loaded = _modules_after(
        "from kohort.protocol.registry import BY_NAME\nBY_NAME['Heartbeat'].request(4)"
    )
    assert {m for m in loaded if m.startswith("kohort.protocol.apis.")} == {
        "kohort.protocol.apis.k12_heartbeat"
    }
    assert "construct" not in loaded


def test_codecs_are_made_once() -> None:
    """The same codec serves every request of a version."""
    api = BY_NAME["Heartbeat"]
    assert api.request(4) is api.request(4)
    assert api.response(4) is api.response(4)
    assert api.request(4) is not api.request(3)


def test_error_codes_are_kafkas() -> None:
    """Names and numbers are kio's."""
    theirs = {code.name.upper(): code.value for code in KioErrorCode}
    ours = {code.name: code.value for code in ErrorCode}
    assert ours.items() <= theirs.items()
    assert set(theirs) - set(ours) <= {"UNKNOWN"}
