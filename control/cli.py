"""The command ``kohort``: the broker's commands, and those that need HTTP.

Exit codes: 0 done, 1 it did not work, 2 the command or the configuration is wrong.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from kohort.broker import cli as broker_cli
from kohort.broker.cli import Beside, NoStart, address, fail, serve_options, why_not
from kohort.broker.config import ConfigError

if TYPE_CHECKING:
    from kohort.broker.server import Broker
    from kohort.control.remote import Remote

DEFAULT_HTTP = "127.0.0.1:9080"
NODE = click.IntRange(min=0)
"""The type of node ids, and of a partition's index."""

_token_option = click.option(
    "--http-token",
    metavar="TOKEN",
    envvar="KOHORT_HTTP_TOKEN",
    show_envvar=True,
    help="What requests that change something have to bring along.",
)


def main() -> None:
    """Runs the command; the same for ``kohort`` and ``python -m kohort``."""
    cli(prog_name="kohort")


LATER = {
    "consume": "kohort.control.commands.consume",
    "demo": "kohort.control.demo.command",
    "groups": "kohort.control.commands.groups",
    "pipeline": "kohort.pipeline.command",
    "produce": "kohort.control.commands.produce",
    "timeline": "kohort.control.timeline.command",
    "top": "kohort.control.top.command",
    "topics": "kohort.control.commands.topics",
    "why": "kohort.control.why.command",
}
"""Commands whose modules are loaded once they are called for: serving starts sooner.

Each is in its module under its own name.
"""


class _Commands(click.Group):
    """The commands, those of `LATER` too."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *LATER])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in LATER:
            return super().get_command(ctx, name)
        found = getattr(importlib.import_module(LATER[name]), name)
        assert isinstance(found, click.Command)  # noqa: S101 - see LATER
        return found


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kohort", message="%(prog)s %(version)s")
def cli() -> None:
    """A Kafka broker for testing consumer groups."""


cli.add_command(broker_cli.config)
cli.add_command(broker_cli.import_)
cli.add_command(broker_cli.inspect)
cli.add_command(broker_cli.ping)
cli.add_command(broker_cli.verify)


@cli.command()
@serve_options
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    help="Opens an HTTP port, for why, top, cluster, /timeline, /events and /metrics; "
    "on loopback if it says no host; 0 takes a free one.",
)
@_token_option
def serve(http: str | None, http_token: str | None, **options: Any) -> None:
    """Serves until SIGTERM or SIGINT.

    Prints one line when it accepts connections. Logs go to stderr. Of a key that
    is set more than once, --set goes before the environment (KOHORT_GROUP_MAX_SIZE
    for group.max.size), and that before the file.
    """
    beside = None if http is None else _http_beside(http, http_token)
    broker_cli.serve(**options, beside=beside)


def _http_beside(where: str, token: str | None) -> Beside:
    """What opens HTTP beside a broker."""
    # aiohttp takes longer to load than all the rest: who wants no HTTP does without.
    from kohort.control.http import (  # noqa: PLC0415
        Control,
        ControlError,
        check_door,
    )

    try:
        host, port = address(where if ":" in where else f"127.0.0.1:{where}")
        check_door(host, token)
    except ConfigError:
        fail(f"--http {where!r}: must be a port or host:port", 2)
    except ControlError as error:
        fail(str(error), 2)

    @asynccontextmanager
    async def beside(broker: Broker) -> AsyncIterator[str]:
        control = Control(broker, host, port, token=token)
        try:
            await control.start()
        except OSError as error:
            free = "--http 0 takes a free one"
            raise NoStart(why_not(host, port, error, free)) from None
        try:
            yield control.url
        finally:
            await control.stop()

    return beside


@cli.group()
def cluster() -> None:
    """Shows and changes the cluster of a broker with an HTTP port."""


def _of_cluster(command: Callable[..., None]) -> click.Command:
    """A command of `cluster`, with the broker that its options name."""

    @click.option(
        "--http",
        metavar="URL",
        envvar="KOHORT_HTTP",
        default=DEFAULT_HTTP,
        show_envvar=True,
        show_default=True,
        help="The broker's HTTP port.",
    )
    @_token_option
    @functools.wraps(command)
    def run(http: str, http_token: str | None, **arguments: Any) -> None:
        # Its modules of HTTP take long to load, and serving needs none of them.
        from kohort.control.remote import Remote, RemoteError  # noqa: PLC0415

        try:
            remote = Remote(http, http_token)
        except ValueError as error:
            fail(f"--http {error}", 2)
        try:
            command(remote, **arguments)
        except RemoteError as error:
            fail(str(error), 1)

    return cluster.command(name=command.__name__.replace("_", "-"))(run)


@_of_cluster
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def status(remote: Remote, *, as_json: bool) -> None:
    """Lists nodes, partitions and coordinators."""
    found = remote.get("v1", "cluster")
    if as_json:
        import json  # noqa: PLC0415 - serving needs none, and starts the sooner

        click.echo(json.dumps(found, indent=2))
    else:
        from kohort.control.tables import show_cluster  # noqa: PLC0415 - rich, slowly

        show_cluster(found)


@_of_cluster
@click.argument("node", type=NODE)
def stop(remote: Remote, *, node: int) -> None:
    """Stops a node: its connections end, others take over what it led."""
    remote.post("v1", "nodes", str(node), "stop")
    click.echo(f"node {node} has stopped")


@_of_cluster
@click.argument("node", type=NODE)
def start(remote: Remote, *, node: int) -> None:
    """Starts a node that was stopped, on the port that it had."""
    remote.post("v1", "nodes", str(node), "start")
    click.echo(f"node {node} is running")


@_of_cluster
@click.argument("topic")
@click.argument("partition", type=NODE)
@click.argument("node", type=NODE)
def move(remote: Remote, *, topic: str, partition: int, node: int) -> None:
    """Makes a node the leader of a partition."""
    remote.post("v1", "partitions", topic, str(partition), "move", node=node)
    click.echo(f"node {node} leads {topic}-{partition}")


@_of_cluster
@click.argument("group")
@click.argument("node", type=NODE)
def move_group(remote: Remote, *, group: str, node: int) -> None:
    """Makes a node the coordinator of a group.

    All groups in the same partition of __consumer_offsets go with it.
    """
    remote.post("v1", "groups", group, "move", node=node)
    click.echo(f"node {node} coordinates group {group}")
