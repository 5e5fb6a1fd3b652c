"""Configuration of a node that no file has: where it listens and keeps its logs."""

from __future__ import annotations


def started_with(
    node_id: int,
    listens_on: tuple[str, int],
    advertised: tuple[str, int],
    log_dir: str,
) -> dict[str, str]:
    """Values by key, as a file for Kafka would have them.

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
