"""Configuration of a node that is in no file: its listeners and log directory."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.config import ConfigError

MAX_PORT = 65535


def started_with(
    node_id: int,
    listens_on: Sequence[tuple[str, int]],
    advertised: Sequence[tuple[str, int]],
    log_dir: str,
) -> dict[str, str]:
    """Returns values by key, as a configuration file of Kafka would have them.

    Args:
        node_id: its id.
        listens_on: host and port of each listener.
        advertised: host and port for the clients of each listener.
        log_dir: the folder of its logs.
    """
    return {
        "advertised.listeners": _named(advertised, listens_on),
        "broker.id": str(node_id),
        "listeners": _named(listens_on, listens_on),
        "log.dirs": log_dir,
        "node.id": str(node_id),
        "process.roles": "broker,controller",
    }


def _named(
    addresses: Sequence[tuple[str, int]], listens_on: Sequence[tuple[str, int]]
) -> str:
    """Addresses with the names of their listeners: those of Kafka are unique."""
    names = ["PLAINTEXT", *(f"PLAINTEXT_{port}" for _, port in listens_on[1:])]
    pairs = zip(names, addresses, strict=True)
    return ",".join(f"{name}://{address(*each)}" for name, each in pairs)


def address(host: str, port: int) -> str:
    """A host and port; IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """(host, port) of "host:port".

    Raises:
        ConfigError: it is something else.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
        raise ConfigError(f"{text!r}: must be host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
