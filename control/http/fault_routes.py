"""Faults over HTTP, and the requests that the broker has recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypedDict, cast

from aiohttp import web
from msgspec import UNSET, Meta, UnsetType, structs

from kohort.broker.faults.rule import FaultError, Rule, UnknownFaultError
from kohort.broker.server import Broker
from kohort.control.http.fault_types import FaultPath, FaultPlan, FaultRule, FaultShown
from kohort.control.http.operations import Fields, NodeId, Operation, Text
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import BY_KEY as APIS_BY_KEY

if TYPE_CHECKING:
    from kohort.broker.faults.plan import Faults

MOST_FAULTS: Final = 1_000
"""Most rules: each request is compared with all of them."""
APIS: Final = [api.name for api in APIS_BY_KEY.values()]
ERRORS: Final = [code.name for code in ErrorCode]
MOST_REQUESTS: Final = 1_000
"""Most rows of one answer: to write them takes some milliseconds."""


class Recording(Fields):
    """Switches the recorder of requests on or off.

    Attributes:
        on: if true, starts with an empty list.
    """

    on: bool = True


class RecordingState(TypedDict):
    """State of the recorder of requests."""

    on: bool


class RequestsQuery(Fields):
    """Which requests are shown.

    Attributes:
        api: requests of this API.
        client_id: requests of clients with this client.id.
        group: requests about this group.
        transactional_id: requests about this transactional.id.
        member_id: requests of this member.
        instance_id: requests of the member with this group.instance.id.
        node: requests to this node.
        error: answers with this error; NONE: without one.
        limit: the most rows, the latest.
    """

    api: Annotated[str | UnsetType, Meta(extra_json_schema={"enum": APIS})] = UNSET
    client_id: Text | UnsetType = UNSET
    group: Text | UnsetType = UNSET
    transactional_id: Text | UnsetType = UNSET
    member_id: Text | UnsetType = UNSET
    instance_id: Text | UnsetType = UNSET
    node: NodeId | UnsetType = UNSET
    error: Annotated[str | UnsetType, Meta(extra_json_schema={"enum": ERRORS})] = UNSET
    limit: Annotated[int, Meta(ge=1, le=MOST_REQUESTS)] = MOST_REQUESTS


class RequestRow(TypedDict):
    """A request that was recorded.

    Attributes:
        time_ns: when its handling began.
        software: the client library; empty if unknown.
        error: NONE: no error; null: no answer, so far.
        fault: the rules that struck it, by their names.
    """

    time_ns: int
    api: str
    version: int
    client_id: str
    software: str
    connection: int
    node: NodeId
    group: str | None
    transactional_id: str | None
    member_id: str | None
    instance_id: str | None
    error: str | None
    fault: str | None


class RequestList(TypedDict):
    """Recorded requests, the oldest first.

    Attributes:
        on: whether requests are recorded now.
        total: matching rows, also beyond the limit.
    """

    on: bool
    total: int
    requests: list[RequestRow]


def operations(broker: Broker) -> list[Operation]:
    """The operations on a broker's faults, and on its recorder of requests."""
    do = _Handlers(broker)
    fault = "/v1/faults/{id}"
    return [
        Operation("GET", "/v1/faults", do.list_faults),
        Operation("POST", "/v1/faults", do.add_fault, (409,), 201),
        Operation("DELETE", "/v1/faults", do.clear_faults),
        Operation("GET", fault, do.show_fault, (404,)),
        Operation("DELETE", fault, do.remove_fault, (404,)),
        Operation("GET", "/v1/requests", do.list_requests),
        Operation("POST", "/v1/requests/recording", do.record_requests),
    ]


class _Handlers:
    """The handlers of the operations."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def _faults(self) -> Faults:
        return self._broker.faults

    def _plan(self) -> FaultPlan:
        rules = [rule.describe() for rule in self._faults.rules]
        return {"seed": self._faults.seed, "faults": rules}

    def _found(self, path: FaultPath) -> Rule:
        try:
            return self._faults.get(path.id)
        except UnknownFaultError as error:
            raise web.HTTPNotFound(text=str(error)) from None

    async def list_faults(self) -> FaultPlan:
        """Lists the rules, each with the number of its strikes."""
        return self._plan()

    async def add_fault(self, body: FaultRule) -> FaultShown:
        """Adds a rule: the requests that it selects, its trigger, and its effect."""
        if len(self._faults.rules) >= MOST_FAULTS:
            raise web.HTTPConflict(text=f"there are already {MOST_FAULTS} faults")
        for key, value in body.items():
            if value is None:
                raise web.HTTPBadRequest(text=f"{key}: must not be null; leave it out")
        try:
            return self._faults.add(body).describe()
        except FaultError as error:
            raise web.HTTPBadRequest(text=str(error)) from None

    async def clear_faults(self) -> FaultPlan:
        """Removes all rules; returns the removed rules."""
        plan = self._plan()
        self._faults.clear()
        return plan

    async def show_fault(self, path: FaultPath) -> FaultShown:
        """Shows a rule."""
        return self._found(path).describe()

    async def remove_fault(self, path: FaultPath) -> FaultShown:
        """Removes a rule and returns it; delayed answers are sent at once."""
        shown = self._found(path).describe()
        self._faults.remove(path.id)
        return shown

    async def list_requests(self, query: RequestsQuery) -> RequestList:
        """Lists the latest recorded requests."""
        given = structs.asdict(query)
        limit = given.pop("limit")
        wanted = {name: value for name, value in given.items() if value is not UNSET}
        requests = self._broker.requests
        try:
            found = requests.find(**wanted)
        except FaultError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        rows = [cast(RequestRow, row.to_dict()) for row in found[-limit:]]
        return {"on": requests.is_on, "total": len(found), "requests": rows}

    async def record_requests(self, body: Recording) -> RecordingState:
        """Starts or stops recording requests; recorded rows are kept."""
        self._broker.requests.record(body.on)
        return {"on": self._broker.requests.is_on}
