"""DescribeClientQuotas: the quotas that match a filter (KIP-546)."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.broker.cluster.quotas import CLIENT_ID, IP, USER
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.protocol.apis.k48_describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kohort.protocol.errors import ErrorCode

_EXACT, _DEFAULT, _ANY = range(3)
_ROW_COST = 3
"""Cost of one entity, as `Pace` counts."""

_Filter = dict[str, ComponentData]


def handle(request: Request) -> Work:
    """Describes the quotas of the entities that match."""
    message: DescribeClientQuotasRequest = request.message
    try:
        wanted = _filter(message.components)
    except RefusedError as refusal:
        request.finish(DescribeClientQuotasResponse(0, refusal.code, refusal.why, None))
        return
    pace = Pace()
    entries = []
    for entity, values in list(request.node.cluster.quotas.values.items()):
        if _matches(dict(entity), wanted, is_strict=message.strict):
            names = [EntityData(kind, name) for kind, name in entity]
            rows = [ValueData(key, value) for key, value in values.items()]
            entries.append(EntryData(names, rows))
        if pace.spend(_ROW_COST):
            yield
    response = DescribeClientQuotasResponse(0, 0, "", entries)
    yield from request.finish_in_pieces(response, pace)


def _filter(components: Sequence[ComponentData]) -> _Filter:
    """The components by type.

    Raises:
        RefusedError: the filter is invalid.
    """
    found: _Filter = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("a type is empty")
        if kind in found:
            raise _invalid(f"the type {kind} occurs twice")
        if kind not in {USER, CLIENT_ID, IP}:
            why = f"there is no type {kind[:260]!r}"
            raise RefusedError(ErrorCode.UNSUPPORTED_VERSION, why)
        if component.match_type not in {_EXACT, _DEFAULT, _ANY}:
            raise _invalid(f"there is no type of match {component.match_type}")
        if (component.match is None) == (component.match_type == _EXACT):
            raise _invalid("an exact match has a name, and others have none")
        found[kind] = component
    if IP in found and len(found) > 1:
        raise _invalid("an address cannot be combined with a user or client id")
    return found


def _matches(
    entity: dict[str, str | None], wanted: _Filter, *, is_strict: bool
) -> bool:
    """Returns whether an entity has the wanted names; if strict, and no others."""
    if is_strict and entity.keys() != wanted.keys():
        return False
    return all(
        kind in entity
        and (component.match_type == _ANY or entity[kind] == component.match)
        for kind, component in wanted.items()
    )


def _invalid(why: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, why)
