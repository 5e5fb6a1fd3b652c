"""The cluster over HTTP: its state, stopping and starting nodes, moving leaders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from kohort.broker.cluster.cluster import ClusterError
from kohort.broker.log.store import StorageError
from kohort.broker.server import Broker
from kohort.control.http.json_http import fields, json_response


def routes(broker: Broker) -> list[web.RouteDef]:
    """The routes of a broker's cluster."""
    handlers = _Handlers(broker)
    node = "/v1/nodes/{id:[0-9]{1,10}}"
    partition = "/v1/partitions/{topic}/{index:[0-9]{1,10}}"
    return [
        web.get("/v1/cluster", handlers.show),
        web.post(f"{node}/stop", handlers.stop_node),
        web.post(f"{node}/start", handlers.start_node),
        web.post(f"{partition}/move", handlers.move_partition),
        web.post("/v1/groups/{group}/move", handlers.move_group),
    ]


class _Handlers:
    """The handlers of the routes."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def show(self, _: web.Request) -> web.Response:
        """The cluster: nodes, topics, coordinators."""
        return json_response(self._broker.status())

    async def stop_node(self, request: web.Request) -> web.Response:
        """Stops a node; answers when it has stopped."""
        node_id = int(request.match_info["id"])
        await fields(request)
        with _refusals(is_there=node_id in self._broker.cluster.nodes):
            await self._broker.stop_node(node_id)
        return json_response({"node": node_id, "running": False})

    async def start_node(self, request: web.Request) -> web.Response:
        """Starts a node; answers when clients can connect to it."""
        node_id = int(request.match_info["id"])
        await fields(request)
        with _refusals(is_there=node_id in self._broker.cluster.nodes):
            await self._broker.start_node(node_id)
        return json_response({"node": node_id, "running": True})

    async def move_partition(self, request: web.Request) -> web.Response:
        """Makes a node the leader of a partition."""
        topic, index = request.match_info["topic"], int(request.match_info["index"])
        to = await fields(request, node=int)
        found = self._broker.cluster.topics.by_name.get(topic)
        with _refusals(is_there=found is not None and index < len(found.partitions)):
            self._broker.move_partition(topic, index, to["node"])
        return json_response({"topic": topic, "partition": index, **to})

    async def move_group(self, request: web.Request) -> web.Response:
        """Makes a node the coordinator of a group, and of those that go with it."""
        group = request.match_info["group"]
        to = await fields(request, node=int)
        # Any name has a coordinator: it is never the group that is missing.
        with _refusals(is_there=True):
            self._broker.move_coordinator(group, to["node"])
        return json_response({"group": group, **to})


@contextmanager
def _refusals(*, is_there: bool) -> Iterator[None]:
    """Answers refusals of the cluster: 404 for an unknown resource, else 409."""
    try:
        yield
    except (OSError, StorageError) as error:
        # The port is taken, or the data directory has no room.
        raise web.HTTPConflict(text=str(error)) from None
    except ClusterError as error:
        kind = web.HTTPConflict if is_there else web.HTTPNotFound
        raise kind(text=str(error)) from None
