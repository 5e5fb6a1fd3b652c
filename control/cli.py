"""The command ``kohort``: a table of commands, one module each.

Exit codes: 0 done, 1 it did not work, 2 the command or the configuration is wrong.
"""

from __future__ import annotations

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "cluster": "kohort.control.commands.cluster",
    "config": "kohort.control.commands.config",
    "consume": "kohort.control.commands.consume",
    "demo": "kohort.control.commands.demo",
    "groups": "kohort.control.commands.groups",
    "import": "kohort.control.commands.import_",
    "inspect": "kohort.control.commands.inspect",
    "ping": "kohort.control.commands.ping",
    "pipeline": "kohort.pipeline.commands.cli",
    "produce": "kohort.control.commands.produce",
    "serve": "kohort.control.commands.serve",
    "timeline": "kohort.control.commands.timeline",
    "top": "kohort.control.commands.top",
    "topics": "kohort.control.commands.topics",
    "verify": "kohort.control.commands.verify",
    "why": "kohort.control.commands.why",
}
"""The module of each command, which defines it under its name (`import_`).

A module is loaded when its command is called, so that ``serve`` starts sooner.
"""


class _Commands(click.Group):
    """The commands of `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *COMMANDS])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return super().get_command(ctx, name)
        module = importlib.import_module(COMMANDS[name])
        found = getattr(module, name if hasattr(module, name) else f"{name}_")
        assert isinstance(found, click.Command)
        return found


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(package_name="kohort", message="%(prog)s %(version)s")
def cli() -> None:
    """A Kafka broker for testing consumer groups."""


def main() -> None:
    """Runs the command; the same for ``kohort`` and ``python -m kohort``."""
    cli(prog_name="kohort")
