"""Commands made of verbs, from their declarations (`kohort.control.verbs`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.control.commands.over_http import command_of
from kohort.control.terminal import examples, fail, json_option, printable
from kohort.control.verbs import Field, Verb, Verbs, fields, opening

if TYPE_CHECKING:
    from kohort.control.remote import Remote

NONE: Final = "none"
"""The word for None where a value must be given."""
EXAMPLES: Final = {"member": "billing-1", "node": "2", "max_size": "2"}
"""Values of arguments in the examples of the help."""


class VerbGroup(click.Group):
    """A group of commands, of which those of verbs are made when they are needed."""

    def add_verbs(self, verbs: type[Verbs], metavar: str, example: str) -> None:
        """Adds a command for each verb.

        Args:
            verbs: the class that declares them.
            metavar: a thing in the help, as "GROUP".
            example: the name of a thing in the examples, as "billing".
        """
        self._verbs = {each.name: each for each in verbs.all()}
        self._resource = f"{verbs.what}s"
        self._metavar = metavar
        self._example = example

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *self._verbs})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command; None: there is none of this name."""
        verb = self._verbs.get(cmd_name)
        return super().get_command(ctx, cmd_name) if verb is None else self._made(verb)

    def _made(self, verb: Verb) -> click.Command:
        declared = [*fields(verb.do)]
        run = _run(verb, declared, self._resource)
        arguments = [each for each in declared if _is_argument(each, declared)]
        texts = [f"{each.name.upper()}: {each.text}" for each in arguments]
        run.__name__ = verb.name
        run.__doc__ = "\n\n".join([opening(verb.do), *texts]).replace("`", "")
        values = [EXAMPLES.get(each.name) or each.choices[0] for each in arguments]
        words = ["kohort", str(self.name), verb.name, self._example, *values]
        examples(" ".join(words))(run)
        json_option(run)
        for each in reversed(declared):
            if each in arguments:
                click.argument(each.name, type=_type(each), required=each.is_required)(
                    run
                )
            else:
                help_ = each.text.replace("`", "")
                click.option(_option(each), type=_type(each), help=help_)(run)
        click.argument("name", metavar=self._metavar)(run)
        return command_of(self)(run)


def _is_argument(field: Field, declared: list[Field]) -> bool:
    """True of fields that are given by their place: not free texts with a default."""
    if field.is_alternative:
        return field is declared[0]
    return field.is_required or field.is_nullable or bool(field.choices)


def _run(verb: Verb, declared: list[Field], resource: str) -> Callable[..., None]:
    def run(remote: Remote, *, name: str, as_json: bool, **given: Any) -> None:
        found = {each: value for each, value in given.items() if value is not None}
        alternatives = [each for each in declared if each.is_alternative]
        chosen = [each.name for each in alternatives if each.name in found]
        if alternatives and len(chosen) != 1:
            first, *others = alternatives
            raise click.UsageError(
                f"Give one of {first.name.upper()}, {', '.join(map(_option, others))}."
            )
        known = {each: None if v == NONE else v for each, v in found.items()}
        answer = remote.post("v1", resource, name, verb.name, **known)
        if as_json:
            from kohort.control.tables import show_json

            show_json(answer)
            return
        member = {"member": found[chosen[0]]} if chosen else {}
        click.echo(printable(verb.sentence({**known, **answer, **member})))

    return run


def _option(field: Field) -> str:
    return f"--{field.name.replace('_', '-')}"


def _type(field: Field) -> Any:
    match field.bound:
        case tuple() as choices:
            return click.Choice(choices)
        case range() as values if field.is_required:
            return _OrNone(values[0], values[-1])
        case range() as values:
            return click.IntRange(values[0], values[-1])
    return str


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
