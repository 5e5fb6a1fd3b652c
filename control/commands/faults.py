"""The command ``kohort faults``: faults of a running broker, over HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.control.commands.over_http import command_of
from kohort.control.terminal import (
    examples,
    fail,
    json_option,
    parse_pairs,
    printable,
)

if TYPE_CHECKING:
    from kohort.control.remote import Remote

COUNTS: Final = ("id", "name", "matches", "strikes", "is_over", "notes")
"""Keys of a rule with separate columns."""

FAULT = click.IntRange(min=0)
"""The type of ids of rules."""


@click.group()
@examples(
    "kohort faults add api=Heartbeat error=NOT_COORDINATOR times=3",
    "kohort faults list",
)
def faults() -> None:
    """Makes the broker fail, delay or lose requests.

    Needs a broker with an HTTP port: kohort serve --http 9080. A fault has selectors
    (which requests), triggers (how many of them) and one or more effects.
    """


@command_of(faults)
@json_option
@examples("kohort faults list")
def list_(remote: Remote, *, as_json: bool) -> None:
    """Lists the faults, and how often each has struck."""
    from kohort.control.tables import show, show_json, table

    plan = remote.get("v1", "faults")
    if as_json:
        show_json(plan)
        return
    if not plan["faults"]:
        click.echo("no faults")
        return
    columns = ("id", "name", "rule", "matches", "strikes")
    rows = [
        (
            rule["id"],
            rule.get("name"),
            _shown(rule) + (" (over)" if rule["is_over"] else ""),
            rule["matches"],
            rule["strikes"],
        )
        for rule in plan["faults"]
    ]
    show(table(columns, rows, ("id", "matches", "strikes")))


@command_of(faults)
@click.argument("keys", metavar="[KEY=VALUE]...", nargs=-1)
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Adds the faults of a TOML plan, [[fault]] tables, instead of KEY=VALUE.",
)
@json_option
@examples(
    "kohort faults add api=OffsetCommit error=NOT_COORDINATOR times=2 group=billing",
    "kohort faults add api=JoinGroup,SyncGroup delay_ms=2000 client_id=billing-1",
    "kohort faults add black_hole=true client_id=billing-2 for_seconds=10",
    "kohort faults add --file plan.toml",
)
def add(
    remote: Remote, *, keys: tuple[str, ...], file: str | None, as_json: bool
) -> None:
    """Adds a fault, or the faults of a plan.

    Selectors: api, group, client_id and others. Triggers: once, nth, times, every,
    probability, for_seconds. Effects: error, delay_ms, disconnect, swallow,
    throttle_ms, duplicate, stale, corrupt, truncate, trickle_ms, black_hole,
    jitter_ms.
    """
    if bool(keys) == (file is not None):
        fail("KEY=VALUE or --file: one of them must be given", 2)
    rules = [_rule(keys)] if file is None else _of_file(file)
    made = [remote.post("v1", "faults", **rule) for rule in rules]
    if as_json:
        from kohort.control.tables import show_json

        show_json(made)
        return
    for rule in made:
        click.echo(printable(f"fault {rule['id']}: {_shown(rule)}"))
        for note in rule["notes"]:
            click.echo(f"  {note}")


@command_of(faults)
@click.argument("ids", metavar="ID...", type=FAULT, nargs=-1, required=True)
@examples("kohort faults remove 1 2")
def remove(remote: Remote, *, ids: tuple[int, ...]) -> None:
    """Removes faults by their ids."""
    for fault in ids:
        rule = remote.delete("v1", "faults", str(fault))
        click.echo(f"fault {fault} is removed; it struck {_times(rule)}")


@command_of(faults)
@examples("kohort faults clear")
def clear(remote: Remote) -> None:
    """Removes all faults."""
    rules = remote.delete("v1", "faults")["faults"]
    for rule in rules:
        click.echo(f"fault {rule['id']} is removed; it struck {_times(rule)}")
    if not rules:
        click.echo("no faults")


def _times(rule: dict[str, Any]) -> str:
    strikes = rule["strikes"]
    return "once" if strikes == 1 else f"{strikes} times"


def _shown(rule: dict[str, Any]) -> str:
    """The keys of a rule, as `add` takes them."""
    return " ".join(
        f"{key}={_text(value)}" for key, value in rule.items() if key not in COUNTS
    )


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _rule(keys: tuple[str, ...]) -> dict[str, Any]:
    """The rule of KEY=VALUE pairs, with JSON's numbers and booleans."""
    from kohort.broker.faults.rule import FaultError, Rule

    found: dict[str, Any] = {}
    for key, text in parse_pairs("KEY=VALUE", keys):
        if key in found:
            fail(f"{key}: is given twice", 2)
        found[key] = _value(key, text)
    try:
        return Rule.from_dict(found).to_dict()
    except FaultError as error:
        fail(str(error), 2)


def _value(key: str, text: str) -> Any:
    from kohort.broker.faults.rule import KEYS, Text

    if key == "api" and "," in text:
        return text.split(",")
    if isinstance(KEYS.get(key), Text):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _of_file(path: str) -> list[dict[str, Any]]:
    from kohort.broker.faults.plan import load_plan
    from kohort.broker.faults.rule import FaultError

    try:
        _, rules = load_plan(path)
    except FaultError as error:
        fail(str(error), 2)
    return [rule.to_dict() for rule in rules]
