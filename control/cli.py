"""The command ``kohort``: a table of commands, one module each.

Exit codes: 0 for success, 1 for a failure, 2 for a wrong command or configuration.
"""

from __future__ import annotations

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "clock": "kohort.control.commands.clock",
    "cluster": "kohort.control.commands.cluster",
    "config": "kohort.control.commands.config",
    "consume": "kohort.control.commands.consume",
    "demo": "kohort.control.commands.demo",
    "faults": "kohort.control.commands.faults",
    "group": "kohort.control.commands.group",
    "groups": "kohort.control.commands.groups",
    "import": "kohort.control.commands.import_",
    "inspect": "kohort.control.commands.inspect",
    "ping": "kohort.control.commands.ping",
    "pipeline": "kohort.pipeline.commands.cli",
    "produce": "kohort.control.commands.produce",
    "run": "kohort.control.commands.run",
    "serve": "kohort.control.commands.serve",
    "simulate": "kohort.control.commands.simulate",
    "sweep": "kohort.control.commands.sweep",
    "timeline": "kohort.control.commands.timeline",
    "top": "kohort.control.commands.top",
    "topics": "kohort.control.commands.topics",
    "transaction": "kohort.control.commands.transaction",
    "transactions": "kohort.control.commands.transactions",
    "verify": "kohort.control.commands.verify",
    "why": "kohort.control.commands.why",
}
"""The module of each command, which defines it under its name (`import_`).

A module is loaded when its command is called, so that ``serve`` starts sooner.
"""


BOOTSTRAP: Final = "bootstrap-server"
_OF_OTHER_TOOLS: Final = {"bootstrap", "bootstrap-servers", "broker-list", "brokers"}
"""Names of the option ``--bootstrap-server`` in other tools; they are accepted."""


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

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            from kohort.control.usage_hints import explained

            raise explained(error) from None
        except KeyboardInterrupt:
            # Of commands that do not handle it; click would print `Aborted!`.
            from kohort.control.terminal import fail

            fail("interrupted", 1)


def _usual(name: str) -> str:
    """The usual spelling of an option's name, without its dashes."""
    return BOOTSTRAP if name.replace("_", "-") in _OF_OTHER_TOOLS else name


@click.group(
    cls=_Commands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "show_default": True,
        "token_normalize_func": _usual,
    },
)
@click.version_option(package_name="kohort", message="%(prog)s %(version)s")
def cli() -> None:
    """A Kafka broker for testing consumer groups."""


def main() -> None:
    """Runs the command; the same for ``kohort`` and ``python -m kohort``."""
    cli(prog_name="kohort")
