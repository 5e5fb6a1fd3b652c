"""Resetting of offsets, for ``kohort groups reset-offsets``."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from kohort.client.admin import Admin
from kohort.client.errors import GroupIdNotFoundError, KohortError
from kohort.client.offsets import EARLIEST, LATEST, TopicPartition
from kohort.control.kafka.group_calls import Offsets, described_groups, places_of
from kohort.control.kafka.options import Access, say
from kohort.control.kafka.printing import report
from kohort.control.kafka.times import duration_ms, time_ms
from kohort.control.kafka.topic_calls import admin_of
from kohort.control.tables import show, show_json, table
from kohort.control.terminal import fail

Shape = Literal["table", "csv", "json"]
Plan = dict[TopicPartition, int]

_WITHOUT_MEMBERS = {"Empty", "Dead"}


@dataclass(frozen=True)
class Reset:
    """The way in which offsets are set.

    Attributes:
        option: the option given.
        number: its offset, its shift, or its time in milliseconds.
        plans: the plans of its file, by group.
    """

    option: str
    number: int = 0
    plans: Mapping[str, Plan] | None = None


def reset_of(option: str, value: Any, names: Sequence[str]) -> Reset:
    """Parses an option; ends the command if it is invalid."""
    if option == "--from-file":
        return Reset(option, plans=_read(value, names))
    try:
        if option == "--to-datetime":
            return Reset(option, time_ms(value))
        if option == "--by-duration":
            return Reset(option, int(time.time() * 1000) - duration_ms(value))
    except ValueError as error:
        fail(f"{option} {error}", 2)
    return Reset(option, value)


def _read(path: str, names: Sequence[str]) -> dict[str, Plan]:
    """The offsets in a file; a group is named in each line if there are several."""
    plans: dict[str, Plan] = {name: {} for name in names}
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
        found = [row for row in csv.reader(text.splitlines()) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        fail(f"--from-file {path}: {getattr(error, 'strerror', None) or error}", 2)
    has_group = len(names) > 1
    for number, row in enumerate(found, 1):
        named = row if len(row) == 4 or has_group else [names[0], *row]
        if len(named) != 4 or not all(map(_is_number, named[2:])):
            shape = f"{'GROUP,' if has_group else ''}TOPIC,PARTITION,OFFSET"
            fail(f"--from-file {path}, line {number}: must be {shape}", 2)
        group, topic, partition, offset = named
        if group in plans:
            plans[group][TopicPartition(topic, int(partition))] = int(offset)
    return plans


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


async def reset_offsets(
    access: Access,
    names: Sequence[str],
    topics: Sequence[str],
    reset: Reset,
    shape: Shape,
    *,
    executes: bool,
) -> int:
    """Sets offsets, or shows the plan; returns the exit code."""
    shown: list[dict[str, Any]] = []
    errors: list[KohortError] = []
    async with admin_of(access) as admin:
        for name in dict.fromkeys(names):
            try:
                await _check_idle(admin, name)
                committed = (await admin.list_consumer_group_offsets({name: None}))[
                    name
                ]
                plan = await _plan(admin, name, topics, reset, committed)
                failed: Mapping[TopicPartition, KohortError] = {}
                if executes:
                    done = await admin.alter_consumer_group_offsets(name, plan)
                    failed = done.errors
                    errors += failed.values()
            except KohortError as error:
                errors.append(error)
                continue
            shown += [
                {
                    "group": name,
                    "topic": place.topic,
                    "partition": place.partition,
                    "committed": committed[place].offset
                    if place in committed
                    else None,
                    "new": plan[place],
                }
                for place in sorted(plan)
                if place not in failed
            ]
    _show(shown, shape, has_group=len(names) > 1)
    if shown and not executes:
        say("nothing was changed; --execute applies it")
    return report(errors)


async def _check_idle(admin: Admin, name: str) -> None:
    """Checks that the group is inactive; it need not exist, as in Kafka's tool."""
    described, errors = await described_groups(admin, [name])
    error, group = errors.get(name), described.get(name)
    if error is not None and not isinstance(error, GroupIdNotFoundError):
        raise error
    if group is not None and group.state not in _WITHOUT_MEMBERS:
        raise KohortError(
            f"its state is {group.state}: offsets can be set once all its members "
            "have left",
            group=name,
        )


async def _plan(
    admin: Admin, name: str, topics: Sequence[str], reset: Reset, committed: Offsets
) -> Plan:
    """The new offset of each partition, within the log."""
    if reset.plans is not None:
        wanted = dict(reset.plans[name])
        if not wanted:
            raise KohortError("the file has no row for it", group=name)
        places = list(wanted)
    else:
        places = await places_of(admin, topics) if topics else list(committed)
        if not places:
            raise KohortError("nothing is committed: name topics", group=name)
    begins = await _offsets(admin, dict.fromkeys(places, EARLIEST))
    ends = await _offsets(admin, dict.fromkeys(places, LATEST))
    if reset.plans is None:
        wanted = await _wanted(admin, name, places, reset, committed, begins, ends)
    return {
        place: min(max(offset, begins[place]), ends[place])
        for place, offset in wanted.items()
    }


async def _wanted(
    admin: Admin,
    name: str,
    places: Sequence[TopicPartition],
    reset: Reset,
    committed: Offsets,
    begins: Plan,
    ends: Plan,
) -> Plan:
    option, number = reset.option, reset.number
    if option in {"--to-datetime", "--by-duration"}:
        found = await _offsets(admin, dict.fromkeys(places, number))
        return {p: ends[p] if offset < 0 else offset for p, offset in found.items()}
    if option == "--to-current":
        return {p: committed[p].offset if p in committed else ends[p] for p in places}
    if option == "--shift-by":
        for place in places:
            if place not in committed:
                raise KohortError(
                    "no committed offset to shift",
                    group=name,
                    topic=place.topic,
                    partition=place.partition,
                )
        return {place: committed[place].offset + number for place in places}
    if option == "--to-offset":
        return dict.fromkeys(places, number)
    return begins if option == "--to-earliest" else ends


async def _offsets(admin: Admin, times: Mapping[TopicPartition, int]) -> Plan:
    found = (await admin.list_offsets(times)).check()
    return {place: row.offset for place, row in found.items()}


def _show(shown: Sequence[Mapping[str, Any]], shape: Shape, *, has_group: bool) -> None:
    if shape == "json":
        show_json(shown)
    elif shape == "csv":
        for row in shown:
            first = [row["group"]] if has_group else []
            text = io.StringIO()
            csv.writer(text, lineterminator="").writerow(
                [*first, row["topic"], row["partition"], row["new"]]
            )
            click.echo(text.getvalue())
    elif shown:
        numbers = ("partition", "committed", "new")
        show(table(("group", "topic", *numbers), [r.values() for r in shown], numbers))
