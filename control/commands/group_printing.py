"""A group in the terminal: its members, and its account of delivery."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from kohort.broker.events.delivery_words import REASONS, SKIP_REASONS, WENT_BACK
from kohort.control.tables import show, table
from kohort.control.terminal import printable, ranges


def show_group(found: dict[str, Any]) -> None:
    """Prints the response of ``GET /v1/groups/GROUP``."""
    facts = {
        "state": found["state"],
        "held in": found["held"],
        **_epoch(found),
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


def _epoch(found: dict[str, Any]) -> dict[str, Any]:
    if found["assignment_epoch"] is None:
        return {"generation": found["generation"]}
    target = f"assignment of epoch {found['assignment_epoch']}"
    return {"protocol": "consumer", "group epoch": f"{found['generation']} ({target})"}


def _now(member: dict[str, Any], leader: str | None) -> str | None:
    """The member's current roles."""
    parts = [
        "leader" if member["member_id"] == leader else "",
        "pending" if member["is_pending"] else "",
        "muted" if member["is_muted"] else "",
        f"waits for {member['waits_for']}" if member["waits_for"] else "",
        "" if member["epoch"] is None else f"epoch {member['epoch']}",
        (member["step"] or "").replace("_", " "),
    ]
    return ", ".join(filter(None, parts)) or None


def _partitions(assignment: dict[str, list[int]]) -> str | None:
    return " ".join(f"{t} {ranges(p)}" for t, p in assignment.items()) or None


def show_delivery(found: dict[str, Any]) -> None:
    """Prints the response of ``GET /v1/groups/GROUP/delivery``."""
    parts: list[RenderableType] = [
        f"group {printable(found['group'])}: {found['words']}"
    ]
    rows = [*_delivery_rows(found)]
    if rows:
        columns = (
            "partition",
            "offsets",
            "records",
            "what",
            "first reader",
            "reader",
            "why",
        )
        parts += ["", table(columns, rows, {"records"})]
    parts += [
        f"{printable(name)}: complete from offset {offset} on"
        for name, offset in found["complete_from"].items()
    ]
    show(*parts)


def _delivery_rows(found: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    def row(each: dict[str, Any], what: str, why: str) -> tuple[object, ...]:
        first = each.get("first_reader") or None
        reader = each["reader"] or None
        offsets = f"{each['first']}-{each['end'] - 1}"
        return _name(each), offsets, each["records"], what, first, reader, why

    for each in found["again"]:
        when = "will be sent again" if each["is_due"] else "sent again"
        grade = "handled before" if each["is_certain"] else "perhaps handled before"
        reason = each["reason"]
        yield row(each, f"{when}, {grade}", REASONS.get(reason, reason))
    for each in found["skipped"]:
        reason = each["reason"]
        yield row(each, "skipped", SKIP_REASONS.get(reason, reason))
    for each in found["went_back"]:
        offsets = f"{each['previous']} to {each['offset']}"
        who = each["member_id"] or each["client_id"] or None
        what, why = "offset went back", WENT_BACK[each["reason"]]
        yield _name(each), offsets, None, what, None, who, why
    for each in found["open"]:
        what = "not fetched since it moved"
        yield _name(each), None, each["records"], what, None, each["owner"], None


def _name(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"
