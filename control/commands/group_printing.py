"""A group and its members in the terminal, for ``kohort group show``."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType

from kohort.control.tables import show, table
from kohort.control.terminal import printable, ranges


def show_group(found: dict[str, Any]) -> None:
    """Prints the response of ``GET /v1/groups/GROUP``."""
    facts = {
        "state": found["state"],
        "held in": found["held"],
        "generation": found["generation"],
        "coordinator": f"node {found['coordinator']}",
        "assignor": found["protocol"],
        "max size": found["max_size"],
        "rebalances": found["rebalances"],
    }
    lines = [
        f"  {name:11}  {printable(str(value))}"
        for name, value in facts.items()
        if value is not None
    ]
    parts: list[RenderableType] = [
        "\n".join([f"group {printable(found['group'])}", *lines])
    ]
    members = [*found["members"], *found["pending_members"]]
    if members:
        columns = ("member", "instance", "client", "host", "now", "partitions")
        rows = [
            (
                member["member_id"],
                member["instance_id"],
                member["client_id"],
                member["host"],
                _now(member, found["leader"]),
                _partitions(member["assignment"]),
            )
            for member in members
        ]
        parts += ["", table(columns, rows)]
    show(*parts)


def _now(member: dict[str, Any], leader: str | None) -> str | None:
    """The member's current roles."""
    parts = [
        "leader" if member["member_id"] == leader else "",
        "pending" if member["is_pending"] else "",
        "muted" if member["is_muted"] else "",
        f"waits for {member['waits_for']}" if member["waits_for"] else "",
    ]
    return ", ".join(filter(None, parts)) or None


def _partitions(assignment: dict[str, list[int]]) -> str | None:
    return " ".join(f"{t} {ranges(p)}" for t, p in assignment.items()) or None
