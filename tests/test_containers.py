"""The command lines of the image and of docker-compose.yml, run without a container."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.commands import done, serving
from tests.control.test_commands import free_ports
from tests.wire.client import connected_to
from tests.wire.requests import metadata

ROOT: Final = Path(__file__).parent.parent
PORTS: Final = ("9092", "29092", "9080")
"""Kafka for the host, Kafka for containers, HTTP."""
TOKEN: Final = "kohort"

Line = tuple[list[str], Mapping[str, str]]


def image() -> tuple[list[str], dict[str, str], list[str]]:
    """The image's command, its variables, and the command of its health check."""
    last = (ROOT / "Dockerfile").read_text().replace("\\\n", "").split("\nFROM ")[-1]
    (env,) = re.findall(r"^ENV (.*)$", last, re.MULTILINE)
    found = re.findall(r"\bCMD (\[.*\])$", last, re.MULTILINE)
    health, command = map(json.loads, found)
    assert re.findall(r"^EXPOSE (.*)$", last, re.MULTILINE) == [" ".join(PORTS)]
    variables = dict(re.findall(r"(KOHORT_\w+)=(\S+)", env))
    return command, variables, health


def compose() -> dict[str, Any]:
    """The service of docker-compose.yml, with the defaults of its variables."""
    text = (ROOT / "docker-compose.yml").read_text()
    parsed = yaml.safe_load(re.sub(r"(?<!\$)\$\{\w+:-(.*?)\}", r"\1", text))
    assert "version" not in parsed
    service: dict[str, Any] = parsed["services"]["kohort"]
    return service


def of_compose() -> Line:
    """The service's command, in the image's environment."""
    service = compose()
    return service["command"], {**image()[1], **service["environment"]}


def of_image() -> Line:
    """The image's own command."""
    command, variables, _ = image()
    return command, variables


@pytest.mark.parametrize("line", [of_compose(), of_image()], ids=["compose", "image"])
async def test_it_serves_hosts_and_containers_at_once(
    line: Line, tmp_path: Path
) -> None:
    """Two listeners, HTTP with a token, and commands that need no address."""
    first = free_ports(len(PORTS))
    there = dict(zip(PORTS, range(first, first + len(PORTS)), strict=True))

    def moved(text: str) -> str:
        """Free ports and a folder of the test, in place of those of a container."""
        text = re.sub(
            r"\b(9092|29092|9080)\b", lambda found: str(there[found[0]]), text
        )
        return text.replace("/var/lib/kohort", str(tmp_path))

    words, given = line
    assert words[0] == "serve"
    variables: dict[str, Any] = {name: moved(value) for name, value in given.items()}
    options = [moved(word) for word in words[1:]]
    with serving("--port", str(there["9092"]), *options, **variables) as broker:
        assert broker.addresses == [f"127.0.0.1:{there['9092']}"]
        assert broker.http == f"http://0.0.0.0:{there['9080']}"
        for port, host in (("9092", "127.0.0.1"), ("29092", "kohort")):
            async with connected_to("127.0.0.1", there[port]) as client:
                answer = await client.call("Metadata", 12, metadata())
            assert [(b.host, b.port) for b in answer.brokers] == [(host, there[port])]
        health = image()[2]
        assert compose()["healthcheck"]["test"] == ["CMD", *health]
        assert done(*health[1:], **variables).startswith(broker.address)
        assert variables["KOHORT_HTTP_TOKEN"] == TOKEN
        done("group", "hold", "billing", **variables)
        done("group", "release", "billing", **variables)
        done("topics", "create", "orders", **variables)


def test_ports_are_published_where_they_are_advertised() -> None:
    """On loopback alone: neither port asks for a password."""
    published = [each.rpartition(":") for each in compose()["ports"]]
    assert [inner for _, _, inner in published] == ["9092", "9080"]
    assert [outer for outer, _, _ in published] == ["127.0.0.1:9092", "127.0.0.1:9080"]
    assert f"--advertise={published[0][0]}" in compose()["command"]
