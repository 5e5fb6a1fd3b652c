"""AlterClientQuotas: sets and removes quotas (KIP-546)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Generator

from kohort.broker.cluster.quotas import (
    CLIENT_ID,
    CONNECTION,
    FETCH,
    IP,
    MOST_ENTITIES,
    MUTATION,
    PRODUCE,
    REQUEST,
    USER,
)
from kohort.broker.handlers.refusal import RefusedError
from kohort.broker.log.metadata import Entity
from kohort.broker.log.store import StorageError
from kohort.broker.long_work import Pace, Work
from kohort.broker.request import Request
from kohort.protocol.apis.k48_describe_client_quotas import EntityData
from kohort.protocol.apis.k49_alter_client_quotas import (
    AlterClientQuotasEntryResponse,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    OpData,
)
from kohort.protocol.errors import ErrorCode

_ROW_COST = 5
"""Cost of one value, as `Pace` counts."""
_MOST = {PRODUCE: 2**63, FETCH: 2**63, CONNECTION: 2**31 - 1}
"""The highest values of quotas that are whole numbers."""
_KEYS = {False: {PRODUCE, FETCH, REQUEST, MUTATION}, True: {CONNECTION}}
"""The keys of users and client ids, and those of addresses."""
_FRACTION = 1e-6
"""Fractions up to this are rounding errors, as in Kafka."""
_HOST_NAME = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?").fullmatch

_Changes = dict[str, float | None]


def handle(request: Request) -> Work:
    """Changes the quotas of each entity, all of them or none."""
    message: AlterClientQuotasRequest = request.message
    pace = Pace()
    errors: dict[Entity, RefusedError | None] = {}
    changes: dict[Entity, _Changes] = {}
    for entry in message.entries:
        # If a type occurs twice, the last name counts.
        names = {}
        for each in entry.entity:
            names[each.entity_type] = each.entity_name
            if pace.spend(1):
                yield
        entity = tuple(sorted(names.items(), key=_by_type))
        try:
            if entity in errors:
                raise _invalid("the request has the entity twice")
            changes[entity] = yield from _changes(names, entry, pace)
            _check_room(request, entity, changes)
            errors[entity] = None
        except RefusedError as refusal:
            errors[entity] = refusal
        if pace.spend(_ROW_COST):
            yield
    if changes and not message.validate_only:
        try:
            request.node.cluster.quotas.alter(changes)
        except StorageError as error:
            failure = RefusedError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            errors.update(dict.fromkeys(changes, failure))
    rows = [_row(entity, refusal) for entity, refusal in errors.items()]
    yield from request.finish_in_pieces(AlterClientQuotasResponse(0, rows), pace)


def _by_type(name: tuple[str, str | None]) -> str:
    return name[0]


def _row(
    entity: Entity, refusal: RefusedError | None
) -> AlterClientQuotasEntryResponse:
    names = [EntityData(kind, name) for kind, name in entity]
    if refusal is None:
        return AlterClientQuotasEntryResponse(0, None, names)
    return AlterClientQuotasEntryResponse(refusal.code, refusal.why, names)


def _changes(
    names: dict[str, str | None], entry: EntryData, pace: Pace
) -> Generator[None, None, _Changes]:
    """The new values of an entity; None removes one.

    Raises:
        RefusedError: the entity, a key or a value is invalid.
    """
    _check_entity(names)
    changes: _Changes = {}
    for op in entry.ops:
        if op.key in changes:
            raise _invalid(f"the request has {op.key} twice")
        if not op.remove:
            _check_value(op, _KEYS[IP in names])
        changes[op.key] = None if op.remove else op.value
        if pace.spend(_ROW_COST):
            yield
    return changes


def _check_entity(names: dict[str, str | None]) -> None:
    if not names:
        raise _invalid("the entity has no names")
    for kind, name in names.items():
        if kind not in {USER, CLIENT_ID, IP}:
            raise _invalid(f"there is no type {kind[:260]!r}")
        if name == "":
            raise _invalid(f"the {kind} is empty")
    if IP not in names:
        return
    if len(names) > 1:
        raise _invalid("an address cannot be combined with a user or client id")
    address = names[IP]
    if address is not None and not _is_address(address):
        raise _invalid(f"{address[:260]!r} is neither an address nor a host")


def _is_address(text: str) -> bool:
    """Returns whether a text is an address, or perhaps a host: Kafka looks it up."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return bool(_HOST_NAME(text))
    return True


def _check_room(
    request: Request, entity: Entity, changes: dict[Entity, _Changes]
) -> None:
    values = request.node.cluster.quotas.values
    if entity not in values and len(values) + len(changes) > MOST_ENTITIES:
        del changes[entity]
        why = f"{MOST_ENTITIES} entities have quotas already"
        raise RefusedError(ErrorCode.POLICY_VIOLATION, why)


def _check_value(op: OpData, keys: set[str]) -> None:
    if op.key not in keys:
        raise _invalid(f"there is no key {op.key[:260]!r}")
    if op.value <= 0:
        raise _invalid(f"{op.key} must be above 0")
    most = _MOST.get(op.key)
    if most is None:
        return
    if op.value > most:
        raise _invalid(f"{op.key} is too large")
    if op.value % 1 > _FRACTION:
        raise _invalid(f"{op.key} must be a whole number")


def _invalid(why: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, why)
