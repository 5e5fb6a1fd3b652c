"""Commands made of verbs, from their declarations (`kohort.control.verbs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from kohort.control.commands.over_http import command_of
from kohort.control.terminal import examples, fail, json_option, printable
from kohort.control.verbs import ENDLESS, Field, Verb, Verbs, fields, opening

if TYPE_CHECKING:
    from kohort.control.remote import Remote

NONE: Final = "none"
"""The word for None where a value must be given."""
EXAMPLES: Final = {
    "member": "billing-1",
    "node": "2",
    "max_size": "2",
    "seconds": "7d",
}
"""Values of arguments in the examples of the help."""


def add_conditions(
    group: click.Group,
    verbs: type[Verbs],
    show: Callable[[dict[str, Any]], None],
    /,
    **things: str,
) -> None:
    """Adds a command for each condition to a group of commands.

    Args:
        group: the group of commands.
        verbs: the class that declares them.
        show: prints the thing.
        things: as for `add_verbs`.
    """
    for condition in verbs.conditions():
        declared = [*fields(condition.do)]
        run = _wait(verbs, condition, show)
        run.__name__ = condition.name
        run.__doc__ = opening(condition.do).replace("`", "")
        words = "kohort", str(group.name), condition.name, *things.values()
        examples(" ".join([*words, "--state", declared[0].choices[-2]]))(run)
        json_option(run)
        for each in reversed(declared):
            _as_option(each, is_flag=each.kind is bool)(run)
        _in_path(verbs, things, run)
        command_of(group)(run)


def _wait(
    verbs: type[Verbs], condition: Verb, show: Callable[[dict[str, Any]], None]
) -> Callable[..., None]:
    def run(remote: Remote, *, as_json: bool, timeout: float, **given: Any) -> None:
        names = {each: given.pop(f"in_{each}") for each in verbs.names}
        path = [part.format(**names) for part in verbs.path.split("/")]
        # As in a query, where true is a word.
        query = {
            each: str(value).lower() if value is True else str(value)
            for each, value in given.items()
            if value is not None and value is not False
        }
        found = remote.wait("v1", *path, condition.name, timeout_s=timeout, **query)
        if as_json:
            from kohort.control.tables import show_json

            show_json(found)
        else:
            show(found)

    return run


def add_verbs(
    group: click.Group, verbs: type[Verbs], /, *names: tuple[str, str], **things: str
) -> None:
    """Adds a command for each verb to a group of commands.

    Args:
        group: the group of commands.
        verbs: the class that declares them.
        names: verbs that are added, and the names of their commands; none: all, by
            their own names.
        things: for each name in the path, its word in the help, and an example, as
            ``GROUP="billing"``.
    """
    known = {each.name: each for each in verbs.all()}
    for name, command in names or zip(known, known, strict=True):
        _add(group, command, verbs, known[name], things)


def _add(
    group: click.Group,
    name: str,
    verbs: type[Verbs],
    verb: Verb,
    things: dict[str, str],
) -> None:
    declared = [*fields(verb.do)]
    run = _run(verbs, verb, declared)
    arguments = [each for each in declared if _is_argument(each, declared)]
    run.__name__ = name
    texts = [opening(verb.do), *map(_text, arguments)]
    run.__doc__ = "\n\n".join(texts).replace("`", "")
    values = [EXAMPLES.get(each.name) or each.choices[0] for each in arguments]
    words = "kohort", str(group.name), name.replace("_", "-")
    example = [*words, *things.values(), *values]
    examples(" ".join(example))(run)
    json_option(run)
    for each in reversed(declared):
        if each in arguments:
            word = "TIME" if each.kind is float else None
            click.argument(
                each.name, type=_type(each), required=each.is_required, metavar=word
            )(run)
        else:
            _as_option(each)(run)
    _in_path(verbs, things, run)
    command_of(group)(run)


def _in_path(
    verbs: type[Verbs], things: dict[str, str], run: Callable[..., None]
) -> None:
    """Adds the names in the path as arguments."""
    places = [*zip(verbs.names.items(), things, strict=True)]
    for (key, hint), word in reversed(places):
        click.argument(f"in_{key}", metavar=word, type=_named(hint))(run)


def _as_option(
    field: Field, *, is_flag: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    text = field.text.replace("`", "")
    if is_flag:
        return click.option(f"--{field.name}", is_flag=True, help=text)
    word = "SECONDS" if field.kind is float else None
    if field.choices:
        word = f"[{'|'.join(field.choices)}]"
    default = str(field.default) if field.kind is float else None
    return click.option(
        _option(field),
        type=_type(field),
        metavar=word,
        help=text,
        default=default,
        show_default=True,
    )


def _text(field: Field) -> str:
    """The part of an argument in the help."""
    if field.kind is float:
        return f"TIME: {field.text} Or with a unit: 90s, 5m, 7d."
    return f"{field.name.upper()}: {field.text}"


def _named(hint: Any) -> Any:
    """The type of a name in a path."""
    kind, bound = get_args(hint)
    return click.IntRange(bound[0], bound[-1]) if kind is int else str


def _is_argument(field: Field, declared: list[Field]) -> bool:
    """True of fields that are given by their place: not free texts with a default."""
    if field.is_alternative:
        return field is declared[0]
    return field.is_required or field.is_nullable or bool(field.choices)


def _run(verbs: type[Verbs], verb: Verb, declared: list[Field]) -> Callable[..., None]:
    def run(remote: Remote, *, as_json: bool, **given: Any) -> None:
        names = {each: given.pop(f"in_{each}") for each in verbs.names}
        found = {each: value for each, value in given.items() if value is not None}
        alternatives = [each for each in declared if each.is_alternative]
        chosen = [each.name for each in alternatives if each.name in found]
        if alternatives and len(chosen) != 1:
            first, *others = alternatives
            raise click.UsageError(
                f"Give one of {first.name.upper()}, {', '.join(map(_option, others))}."
            )
        known = {each: None if v == NONE else v for each, v in found.items()}
        path = [part.format(**names) for part in verbs.path.split("/")]
        answer = remote.post("v1", *path, verb.name, **known)
        if as_json:
            from kohort.control.tables import show_json

            show_json(answer)
            return
        member = {"member": found[chosen[0]]} if chosen else {}
        click.echo(printable(verb.sentence({**names, **known, **answer, **member})))

    return run


def _option(field: Field) -> str:
    name = field.name.replace("_", "-")
    return f"--{name}/--no-{name}" if field.kind is bool else f"--{name}"


def _type(field: Field) -> Any:
    match field.bound:
        case tuple() as choices:
            return click.Choice(choices, case_sensitive=False)
        case range() if field.kind is float:
            return _seconds
        case range() as values if field.is_required and field.is_nullable:
            return _OrNone(values[0], values[-1])
        case range() as values:
            most = None if values[-1] == ENDLESS else values[-1]
            return click.IntRange(values[0], most)
    return field.kind


class _OrNone(click.IntRange):
    """A whole number, or `NONE`."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        if value == NONE:
            return NONE
        if not str(value).isdecimal():
            fail(f"{value!r}: must be a whole number, or {NONE}", 2)
        return super().convert(value, param, ctx)


def _seconds(text: str) -> float:
    """Seconds, or a time with a unit; its greatest value is the broker's business."""
    from kohort.control.kafka.times import duration_ms

    try:
        return (
            duration_ms(f"{text}s" if text.replace(".", "", 1).isdigit() else text)
            / 1000
        )
    except ValueError as error:
        fail(str(error), 2)
