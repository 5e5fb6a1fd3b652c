"""Hints in usage errors: similar commands, and options of Kafka's or other commands.

Loaded only after a wrong command line.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

import click

from kohort.control.terminal import DEFAULT_HTTP

_CLIENT_SETTING: Final = "Kafka's client settings are set by -X KEY=VALUE"
_SUBCOMMAND: Final = "kohort topics and kohort groups have commands for this"
_OPTIONS: Final = {
    "--bootstrap-server": f"this command uses the HTTP port: --http {DEFAULT_HTTP}",
    "--http": "this command uses Kafka's protocol: --bootstrap-server localhost:9092",
    "--property": _CLIENT_SETTING,
    "--consumer-property": _CLIENT_SETTING,
    "--producer-property": _CLIENT_SETTING,
    "--command-config": "a file of client settings is read by --client-config FILE",
    "--create": _SUBCOMMAND,
    "--delete": _SUBCOMMAND,
    "--describe": _SUBCOMMAND,
    "--list": _SUBCOMMAND,
}
"""Hints for options of Kafka's tools and of other commands."""
_SERVE: Final = "kohort serve is the broker; it listens on --host and --port"

_COMMANDS: Final = {
    "broker": "serve",
    "help": "--help",
    "server": "serve",
    "start": "serve",
    "test": "run",
    "version": "--version",
}
"""Other names for commands."""
_SIBLINGS: Final = {"group": "groups", "groups": "group"}
"""Commands of which one is mistaken for the other."""


def explained(error: click.UsageError) -> click.UsageError:
    """The error with a hint, or the same error if there is none."""
    context = error.ctx
    if context is None:
        return error
    hint = ""
    unknown = re.match("No such command '(.*)'", error.message)
    if isinstance(error, click.NoSuchOption):
        hint = _of_option(context, error.option_name)
    elif unknown and isinstance(context.command, click.Group):
        hint = _of_command(context, context.command, unknown[1])
    if not hint:
        return error
    return click.UsageError(f"{error.message.rstrip('.')}; {hint}", context)


def _of_option(context: click.Context, option: str) -> str:
    """The hint for an unknown option."""
    name = option.lstrip("-")
    for parameter in context.command.params:
        if isinstance(parameter, click.Argument):
            shown = re.sub(
                r"[^A-Z_]", "", (parameter.metavar or parameter.name or "").upper()
            )
            if name.upper() == shown:
                return f"it has no option name: {context.command_path} {shown}"
    if option == "--bootstrap-server" and context.command.name == "serve":
        return _SERVE
    return _OPTIONS.get(option, "")


def _of_command(context: click.Context, group: click.Group, name: str) -> str:
    """The hint for an unknown command."""
    sibling = _SIBLINGS.get(context.info_name or "")
    if sibling and context.parent is not None:
        root = context.parent.command
        assert isinstance(root, click.Group)
        other = root.get_command(context, sibling)
        if isinstance(other, click.Group) and name in other.list_commands(context):
            return f"did you mean kohort {sibling} {name}?"
    if context.parent is None and name in _COMMANDS:
        return f"did you mean kohort {_COMMANDS[name]}?"
    near = difflib.get_close_matches(name, group.list_commands(context), 1)
    return f"did you mean {context.command_path} {near[0]}?" if near else ""
