"""The JSON of faults: a rule's keys, and which of them go together.

`kohort.broker.faults.rule` checks them; here is the same as JSON Schema, made of the
checks, for the OpenAPI document.
"""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Any, Final, TypedDict

from msgspec import Meta

from kohort.broker.faults import rule
from kohort.broker.faults.rule import (
    CONNECTION_SELECTORS,
    EFFECTS,
    OF_CONNECTIONS,
    SELECTORS,
    TRIGGERS,
    Check,
    Flag,
    Name,
    Names,
    Number,
    Text,
    Whole,
)
from kohort.control.http.operations import Fields

Schema = dict[str, Any]


def _schema(check: Check) -> Schema:
    """The JSON Schema of the values that a key may have."""
    match check:
        case Text(most):
            return {"type": "string", "maxLength": most}
        case Flag():
            return {"const": True}
        case Whole(least, most):
            return {"type": "integer", "minimum": least, "maximum": most}
        case Number(most):
            return {"type": "number", "exclusiveMinimum": 0, "maximum": most}
        case Name(known):
            return {"enum": [*known]}
        case Names(each):
            one = _schema(each)
            return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}


_DESCRIPTIONS: Final = {
    "name": "For events, and for `kohort why`.",
    # Selectors.
    "api": "Requests of this API, or of one of these.",
    "version": "Requests of this version.",
    "group": "Requests about this group.",
    "transactional_id": "Requests about this transactional.id.",
    "member_id": "Requests of this member.",
    "instance_id": "Requests of the member with this group.instance.id.",
    "client_id": "Requests of clients with this client.id.",
    "software": "Requests of this client library, as its ApiVersions names it.",
    "connection": "Requests of this connection.",
    "topic": "Requests about this topic; an error strikes its rows only.",
    "partition": (
        "Requests about a partition of this index; an error strikes its rows only."
    ),
    "node": "Requests to this node.",
    "state": "Requests about groups in this state.",
    # Triggers.
    "once": "The first request only.",
    "nth": "This request only, counted from 1.",
    "times": "This many requests, the first ones.",
    "every": "Every n-th request.",
    "probability": "This share of the requests, at random.",
    "for_seconds": "Only for this time after it was added.",
    "seed": "Seed of its random numbers; by default the plan's.",
    # Effects.
    "error": "Answers with this error at once.",
    "delay_ms": "Delays the answer; the request takes effect at once.",
    "disconnect": "Closes the connection before or after it is handled.",
    "swallow": (
        "Neither handles nor answers the request; later requests of the connection "
        "wait until the client closes it."
    ),
    "throttle_ms": "Throttles the client for this time.",
    "duplicate": "Handles the request twice.",
    "stale": "Repeats the last answer.",
    "corrupt": "Changes bytes of the answer.",
    "truncate": "Sends half of the answer, and closes the connection.",
    "trickle_ms": "Pauses after each byte of the answer.",
    "black_hole": "Neither reads nor answers; connections stay open.",
    "jitter_ms": "Delays all bytes by up to this, at random.",
}
KEYS: Final[dict[str, Schema]] = {
    key: {**_schema(check), "description": _DESCRIPTIONS[key]}
    for key, check in rule.KEYS.items()
}
"""The schema of each key."""

_REFUSED: Final = {
    key: False for key in [*SELECTORS, *TRIGGERS] if key not in CONNECTION_SELECTORS
}
RULE: Final[Schema] = {
    "properties": KEYS,
    "additionalProperties": False,
    # One effect; one trigger at most; some effects strike whole connections.
    "oneOf": [{"required": [key]} for key in EFFECTS],
    "not": {"anyOf": [{"required": [*pair]} for pair in combinations(TRIGGERS, 2)]},
    "dependentSchemas": {
        key: {"properties": _REFUSED} for key in sorted(OF_CONNECTIONS)
    },
}
SHOWN: Final[Schema] = {
    "properties": {
        "id": {"type": "integer"},
        **KEYS,
        "matches": {
            "type": "integer",
            "description": "Requests that it has selected.",
        },
        "strikes": {
            "type": "integer",
            "description": "Requests that it has struck.",
        },
        "is_over": {"type": "boolean", "description": "`for_seconds` have passed."},
        "notes": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Its effects that Kafka never has.",
        },
    },
    "required": ["id", "matches", "strikes", "is_over", "notes"],
    "additionalProperties": False,
}

FaultRule = Annotated[
    dict[str, Any],
    Meta(
        title="FaultRule",
        description="A rule: selectors, a trigger, and exactly one effect.",
        extra_json_schema=RULE,
    ),
]
FaultShown = Annotated[
    dict[str, Any],
    Meta(title="FaultShown", description="A rule.", extra_json_schema=SHOWN),
]


class FaultPath(Fields):
    """The path of a rule."""

    id: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="The id that it was given.")
    ]


class FaultPlan(TypedDict):
    """The rules, in the order in which they were added."""

    seed: Annotated[int, Meta(description="The seed of random numbers.")]
    faults: list[FaultShown]
