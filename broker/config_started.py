"""Configuration of a node that is in no file: its listeners and log directory."""

from __future__ import annotations

from kohort.broker.config import ConfigError

MAX_PORT = 65535


def started_with(
    node_id: int,
    listens_on: tuple[str, int],
    advertised: tuple[str, int],
    log_dir: str,
) -> dict[str, str]:
    """Returns values by key, as a configuration file of Kafka would have them.

    Args:
        node_id: its id.
        listens_on: its host and port.
        advertised: host and port for clients.
        log_dir: the folder of its logs.
    """
    return {
        "advertised.listeners": f"PLAINTEXT://{address(*advertised)}",
        "broker.id": str(node_id),
        "listeners": f"PLAINTEXT://{address(*listens_on)}",
        "log.dirs": log_dir,
        "node.id": str(node_id),
        "process.roles": "broker,controller",
    }


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
