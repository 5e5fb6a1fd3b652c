"""The schema of events, version 1: every kind and every field.

An event is one JSON object: the fields of `COMMON`, and those of its kind. A field
has the same name, type and meaning in every kind that has it, so all events fit in
one wide table. The JSON Schema, the Spark schema and the tables in the documents are
generated from here.

Within a schema version kinds and fields are only added. Readers ignore unknown ones,
and treat a missing field as null.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kohort.broker import events
from kohort.broker.events.fields import Field, Kind, always
from kohort.broker.events.kinds import (
    account,
    broker,
    delivery,
    findings,
    members,
    offsets,
    rebalances,
    transactions,
)

SCHEMA_VERSION = events.SCHEMA_VERSION

COMMON = (
    always("schema", "int", "version of this schema: 1"),
    always("run", "string", "unique id of this run of the broker"),
    always("labels", "map", "labels that the user gave this run, as by `--label`"),
    always("node", "int", "id of the node that published the event"),
    always(
        "sequence",
        "long",
        "number of the event among those of its run and node, from 1, without gaps",
    ),
    always("kind", "string", "kind of event"),
    always("time_ns", "long", "time by the broker's clock, ns since the epoch"),
    always("wall_ns", "long", "time by the machine's clock, ns since the epoch"),
    Field("group", "string", "group id"),
    Field("generation", "int", "the group's generation after the event"),
    Field(
        "member_id",
        "string",
        "the member concerned; for a rebalance: the member that caused it",
    ),
    Field("instance_id", "string", "that member's group.instance.id (KIP-345)"),
    Field(
        "client_id",
        "string",
        "that member's client.id; for a refused JoinGroup or OffsetCommit of a"
        " non-member: the request's; for a transaction: the producer's",
    ),
    Field("host", "string", "that client's host, as Kafka shows it"),
    Field(
        "connection",
        "long",
        "number of the connection of the member's last JoinGroup, or of the refused"
        " request, within the run. A new member id on the connection of an earlier"
        " one is the same process. Null: unknown",
    ),
    Field("cause", "string", "cause; each kind lists its own"),
    Field(
        "reason",
        "string",
        "reason given by the client or a command (KIP-800); null: none",
    ),
)

ROWS: Mapping[str, tuple[Field, ...]] = MappingProxyType(
    {
        **rebalances.ROWS,
        **account.ROWS,
        **offsets.ROWS,
        **delivery.ROWS,
        **findings.ROWS,
    }
)
"""Elements of list fields, by the name of their type."""

KINDS: tuple[Kind, ...] = (
    *members.KINDS,
    *rebalances.KINDS,
    *account.KINDS,
    *findings.KINDS,
    *offsets.KINDS,
    *delivery.KINDS,
    *transactions.KINDS,
    *broker.KINDS,
)

BY_NAME: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in KINDS})
