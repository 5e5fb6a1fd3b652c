"""Requests about configuration, for Apache Kafka and for kohort.

`tests/data/record_configs.py` asks Kafka, and `test_config_cases.py` compares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from tests.wire.client import WireClient
from tests.wire.requests import create_topics

import kohort.protocol.apis.k32_describe_configs as k32
import kohort.protocol.apis.k33_alter_configs as k33
import kohort.protocol.apis.k44_incremental_alter_configs as k44
from kohort.protocol.apis.k10_find_coordinator import FindCoordinatorRequest

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OFFSETS = "__consumer_offsets"

STARTED_WITH = {
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
"""Settings of the broker, without its addresses."""

DESCRIBED = [
    (BROKER, "1"),
    (BROKER, ""),
    (BROKER, "01"),
    (TOPIC, "plain"),
    (TOPIC, "set"),
    (TOPIC, OFFSETS),
    (GROUP, "g"),
    (METRICS, "m"),
]
NOT_DESCRIBED = [
    (BROKER, "9"),
    (BROKER, "x"),
    (BROKER, "-1"),
    (BROKER, " 1"),
    (LOGGER, ""),
    (LOGGER, "9"),
    (TOPIC, ""),
    (TOPIC, "none"),
    (TOPIC, "a b"),
    (GROUP, ""),
    (METRICS, ""),
]

RESOURCES = [
    (TOPIC, "plain"),
    (BROKER, "1"),
    (BROKER, ""),
    (GROUP, "g"),
    (METRICS, "m"),
]
"""The resources that cases change."""

_OWN = {TOPIC: {1}, BROKER: {2, 3}, METRICS: {7}, GROUP: {8}}
"""Sources of values set on a resource itself."""

_BROKERS = ["1", ""]

_CHANGES: list[tuple[int, Iterable[str], list[tuple[str, int, str | None]]]] = [
    # One request each, one change each.
    (
        TOPIC,
        ["plain"],
        [
            ("nope", SET, "1"),
            ("nope", DELETE, None),
            ("nope", DELETE, "x"),
            ("nope", APPEND, "x"),
            ("nope", SUBTRACT, "x"),
            ("", SET, "1"),
            ("", DELETE, None),
            ("retention.ms", SET, None),
            ("retention.ms", APPEND, None),
            ("retention.ms", APPEND, "5"),
            ("retention.ms", DELETE, "7"),
            ("retention.ms", 7, "1"),
            ("retention.ms", -1, "1"),
            ("retention.ms", 4, None),
            ("retention.ms", SET, " 05 "),
            ("retention.ms", SET, "+7"),
            ("cleanup.policy", SET, ""),
            ("cleanup.policy", SET, "delete,delete"),
            ("cleanup.policy", SET, "compact, delete "),
            ("cleanup.policy", SET, ",delete"),
            ("cleanup.policy", APPEND, ""),
            ("cleanup.policy", APPEND, "compact"),
            ("cleanup.policy", APPEND, " compact"),
            ("cleanup.policy", APPEND, "delete,compact,compact,"),
            ("cleanup.policy", SUBTRACT, "delete"),
            ("cleanup.policy", SUBTRACT, " delete "),
            ("min.insync.replicas", SET, "3"),
            ("leader.replication.throttled.replicas", APPEND, "0:1"),
            ("leader.replication.throttled.replicas", SET, "*"),
            ("leader.replication.throttled.replicas", SET, "x"),
            ("internal.segment.bytes", SET, "1000"),
            ("remote.storage.enable", SET, "true"),
            ("local.retention.ms", SET, "10"),
            ("compression.type", SET, "GZIP"),
            ("preallocate", SET, "TRUE"),
            ("min.cleanable.dirty.ratio", SET, "1e-4"),
        ],
    ),
    (TOPIC, ["none"], [("nope", SET, "1"), ("retention.ms", DELETE, None)]),
    (TOPIC, ["", "a b", "."], [("retention.ms", SET, "1"), ("nope", SET, None)]),
    (
        BROKER,
        _BROKERS,
        [
            ("some.key", SET, "5"),
            ("some.key", APPEND, "5"),
            ("some.key", SUBTRACT, "5"),
            ("some.key", DELETE, None),
            ("", SET, "x"),
            ("", DELETE, None),
            ("log.cleaner.threads", SET, " 2 "),
            ("log.cleaner.threads", SET, None),
            ("log.cleaner.threads", APPEND, "2"),
            ("log.cleaner.threads", 9, "2"),
            ("log.cleaner.threads", SET, "0"),
            ("log.cleaner.threads", SET, "5"),
            ("log.cleanup.policy", APPEND, "compact"),
            ("log.cleanup.policy", SUBTRACT, "delete"),
            ("log.cleanup.policy", APPEND, "burn"),
            ("log.retention.ms", SET, "5000"),
            ("log.retention.ms", SET, "0"),
            ("log.retention.ms", SET, "-7"),
            ("log.retention.hours", SET, "5"),
            ("log.flush.interval.ms", SET, "5"),
            ("log.roll.ms", SET, "5"),
            ("min.insync.replicas", SET, "2"),
            ("min.insync.replicas", DELETE, None),
            ("group.max.size", SET, "2"),
            ("group.max.size", DELETE, None),
            ("group.max.size", APPEND, "2"),
            ("leader.replication.throttled.rate", SET, "5"),
            ("leader.replication.throttled.rate", SET, "-5"),
            ("group.consumer.assignment.interval.ms", SET, "20000"),
            ("group.share.assignment.interval.ms", SET, "7"),
            ("listener.name.plaintext.max.connections", SET, "50"),
            ("listener.name.plaintext.max.connections", SET, "x"),
            ("listener.name.other.max.connections", SET, "50"),
            ("listener.name.plaintext.ssl.keystore.location", SET, "/x"),
            ("listener.name.plaintext.ssl.key.password", SET, "x"),
            ("listener.name.other.nope", SET, "x"),
            ("listener.name.other.group.max.size", SET, "3"),
            ("listener.name.plaintext.num.network.threads", SET, "4"),
            ("ssl.key.password", SET, "x"),
            ("listeners", SET, "PLAINTEXT://127.0.0.1:1"),
            ("advertised.listeners", SET, "PLAINTEXT://127.0.0.1:1"),
            ("num.io.threads", SET, "17"),
            ("num.io.threads", SET, "3"),
            ("num.io.threads", SET, "16"),
            ("num.io.threads", SET, "4"),
            ("num.network.threads", SET, "100"),
            ("background.threads", SET, "100"),
            ("max.connections.per.ip", SET, "0"),
            ("max.connections.per.ip.overrides", SET, "10.0.0.1:5, host:7"),
            ("metric.reporters", SET, ""),
            ("config.providers", SET, "x"),
        ],
    ),
    (
        BROKER,
        ["9", "x", " 1", "01", "+1", "-1", "1.0"],
        [("log.preallocate", SET, "true")],
    ),
    (
        GROUP,
        ["g"],
        [
            ("nope", SET, "1"),
            ("nope", DELETE, None),
            ("consumer.assignor.offload.enable", SET, "true"),
            ("consumer.session.timeout.ms", SET, None),
            ("consumer.session.timeout.ms", APPEND, "1"),
            ("consumer.session.timeout.ms", 5, "1"),
            *(
                (name, SET, value)
                for name, values in {
                    "consumer.session.timeout.ms": "x 0 44999 45000 60000 60001",
                    "consumer.heartbeat.interval.ms": "4999 5000 15000 15001",
                    "consumer.assignment.interval.ms": "-1 0 15000 15001",
                    "share.session.timeout.ms": "44999 60000 60001",
                    "share.heartbeat.interval.ms": "4999 15001",
                    "share.record.lock.duration.ms": "999 1000 15000 60000 60001",
                    "share.delivery.count.limit": "1 2 10 11",
                    "share.partition.max.record.locks": "99 100 4000 4001",
                    "share.assignment.interval.ms": "0 15001",
                    "share.isolation.level": "read_committed READ_COMMITTED x",
                    "share.renew.acknowledge.enable": "FALSE x",
                    "share.auto.offset.reset": (
                        "earliest latest LATEST none x by_duration by_duration: "
                        "by_duration:PT1H by_duration:pt1h by_duration:+PT1H "
                        "by_duration:-PT1H by_duration:PT-1H by_duration:P-1DT25H "
                        "by_duration:-PT-1H by_duration:P1DT2H3M4.5S by_duration:PT "
                        "by_duration:P1D by_duration:P1DT by_duration:P1Y "
                        "by_duration:PT1.5H by_duration:PT0S by_duration:P1W "
                        "by_duration:P999999999999999D by_duration:PT1,5S "
                        "BY_DURATION:PT1H"
                    ),
                    "streams.session.timeout.ms": "44999 60001",
                    "streams.heartbeat.interval.ms": "4999 15001",
                    "streams.num.standby.replicas": "-1 0 2 3",
                    "streams.initial.rebalance.delay.ms": "-1 0 99999999",
                    "streams.assignment.interval.ms": "0 15001",
                }.items()
                for value in values.split()
            ),
            ("share.auto.offset.reset", SET, " latest "),
            ("consumer.assignment.interval.ms", SET, " 7 "),
        ],
    ),
    (GROUP, [""], [("consumer.session.timeout.ms", SET, "50000")]),
    (
        METRICS,
        ["m"],
        [
            ("nope", SET, "1"),
            ("nope", DELETE, None),
            ("metrics", SET, "a,b"),
            ("metrics", SET, "a,a"),
            ("metrics", SET, "a,,b"),
            ("metrics", SET, ""),
            ("metrics", SET, "*"),
            ("metrics", SET, None),
            ("metrics", APPEND, "c"),
            ("metrics", SUBTRACT, "c"),
            *(
                ("interval.ms", SET, value)
                for value in ("99", "100", "3600000", "3600001", "x", "", "-1", " 200 ")
            ),
            *(
                ("match", SET, value)
                for value in (
                    "",
                    "client_id",
                    "client_id=",
                    "client_id= ",
                    "client_id==",
                    "client_id=a",
                    "client_id=a=",
                    "client_id=a=b",
                    "=a",
                    "nope=a",
                    " client_id =a",
                    "client_id=a,client_id=b",
                    "client_software_name = Java, client_software_version = 11.1.*",
                    "client_id=[",
                    "client_id=(",
                    "client_id={",
                    "client_id=a{2}",
                    "client_id=a*+",
                    "client_id=*",
                    "client_id=(?i)a",
                    "client_id=\\p{L}",
                    "client_id=(?<n>a)\\k<n>",
                    "client_id=(?<!a)b",
                )
            ),
        ],
    ),
    (METRICS, [""], [("metrics", SET, "a")]),
    (
        LOGGER,
        ["1"],
        [
            *(
                ("root", SET, level)
                for level in (
                    "DEBUG",
                    "debug",
                    "TRACE",
                    "OFF",
                    "FATAL",
                    "WARN",
                    "",
                    None,
                )
            ),
            ("root", DELETE, None),
            ("root", APPEND, "INFO"),
            ("root", SUBTRACT, "INFO"),
            ("root", 9, "INFO"),
            ("nope", SET, "INFO"),
            ("nope", DELETE, None),
            ("", SET, "INFO"),
        ],
    ),
    (LOGGER, ["", "9", "x", "01"], [("root", SET, "WARN")]),
    (127, ["x"], [("a", SET, "b")]),
    (-1, ["x"], [("a", SET, None)]),
]

_Resource = tuple[int, str, list[Any]]
Step = tuple[int, bool, list[_Resource]]


def _cases() -> list[list[Step]]:
    """Cases of one or several requests: API key, whether to validate only, changes."""
    cases: list[list[Step]] = [
        [(44, False, [(kind, name, [change])])]
        for kind, names, changes in _CHANGES
        for name in names
        for change in changes
    ]
    good = {
        TOPIC: ("plain", "segment.ms", "7"),
        GROUP: ("g", "share.isolation.level", "read_committed"),
        METRICS: ("m", "metrics", "a"),
        BROKER: ("1", "log.preallocate", "true"),
    }
    for kind, (name, key, value) in good.items():
        cases += [
            [(44, False, [(kind, name, [(key, SET, value), ("", SET, None)])])],
            [(44, False, [(kind, name, [(key, SET, value), (key, DELETE, None)])])],
            [(44, True, [(kind, name, [(key, SET, value)])])],
            [(44, False, [(kind, name, [])])],
            [(44, False, [(kind, "", [])])],
            [(33, True, [(kind, name, [(key, value)])])],
            [(33, False, [(kind, name, [(key, None)])])],
            [(33, False, [(kind, name, [(key, value), (key, value)])])],
            [(33, False, [(kind, name, [("nope", value)])])],
            [(33, False, [(kind, "", [])])],
            [
                (44, False, [(kind, name, [(key, SET, value)])]),
                (33, False, [(kind, name, [])]),
                (33, False, [(kind, name, [(key, value)])]),
                (44, False, [(kind, name, [(key, DELETE, None)])]),
            ],
        ]
    policy = "cleanup.policy"
    cases += [
        [
            (44, False, [(TOPIC, "plain", [(policy, operation, value)])])
            for operation, value in [
                (APPEND, "compact"),
                (APPEND, "delete"),
                (SUBTRACT, "delete,delete"),
                (SUBTRACT, "compact"),
                (APPEND, ""),
                (DELETE, None),
            ]
        ],
        [
            (33, False, [(BROKER, who, values)])
            for who in _BROKERS
            for values in ([], [("min.insync.replicas", "1")], [("log.dirs", "x")])
        ],
        [
            (33, False, [(BROKER, "", [("min.insync.replicas", "1"), ("a.b", "c")])]),
            (44, False, [(BROKER, "1", [("a.b", SET, "d")])]),
            (44, False, [(BROKER, "", [("a.b", DELETE, None)])]),
        ],
        [
            (
                44,
                False,
                [(TOPIC, "plain", [("segment.ms", SET, "7"), ("nope", SET, "7")])],
            )
        ],
        [
            (
                44,
                False,
                [
                    (TOPIC, "plain", [("segment.ms", SET, "7")]),
                    (TOPIC, "plain", [("segment.ms", SET, "7")]),
                    (TOPIC, "none", [("segment.ms", SET, "7")]),
                    *((kind, "x", []) for kind in (0, 1, 3, 5, 64)),
                    (BROKER, "9", []),
                ],
            )
        ],
        [
            (
                44,
                False,
                [
                    (TOPIC, "plain", [("segment.ms", SET, "7")]),
                    (GROUP, "g", [("share.isolation.level", 7, "7")]),
                    (METRICS, "m", [("metrics", SET, None)]),
                    (BROKER, "9", []),
                ],
            )
        ],
        [
            (
                33,
                False,
                [
                    (TOPIC, "plain", [("segment.ms", "7")]),
                    (TOPIC, "none", [("segment.ms", "7")]),
                    # Kafka never answers two resources of one name and an unknown type.
                    *((kind, f"x{kind}", []) for kind in (0, 1, 3, 5, 64, LOGGER)),
                    (BROKER, "9", []),
                ],
            )
        ],
        [
            (
                44,
                False,
                [
                    (
                        TOPIC,
                        "plain",
                        [
                            ("min.compaction.lag.ms", SET, "10"),
                            ("max.compaction.lag.ms", SET, "5"),
                        ],
                    )
                ],
            )
        ],
        [(44, False, []), (33, False, [])],
    ]
    return cases


CASES = _cases()


async def describe(
    client: WireClient, kind: int, name: str, version: int = 4
) -> tuple[int, dict[str, list[Any]]]:
    """The error code and the keys of a resource, without their documentation."""
    resource = k32.DescribeConfigsResource(kind, name, None)
    request = k32.DescribeConfigsRequest([resource], include_synonyms=True)
    answer = await client.call("DescribeConfigs", version, request)
    (result,) = answer.results
    return result.error_code, {
        row.name: [
            row.value,
            row.config_source,
            row.read_only,
            row.is_sensitive,
            row.config_type,
            [[s.name, s.value, s.source] for s in row.synonyms],
        ]
        for row in result.configs
    }


async def alter(client: WireClient, step: Step) -> list[int]:
    """The error codes of the response."""
    api, validate_only, resources = step
    message: object
    if api == 44:
        message = k44.IncrementalAlterConfigsRequest(
            [
                k44.AlterConfigsResource(
                    kind, name, [k44.AlterableConfig(*change) for change in changes]
                )
                for kind, name, changes in resources
            ],
            validate_only,
        )
        answer = await client.call("IncrementalAlterConfigs", 1, message)
    else:
        message = k33.AlterConfigsRequest(
            [
                k33.AlterConfigsResource(
                    kind, name, [k33.AlterableConfig(*pair) for pair in pairs]
                )
                for kind, name, pairs in resources
            ],
            validate_only,
        )
        answer = await client.call("AlterConfigs", 2, message)
    return [row.error_code for row in answer.responses]


async def prepare(client: WireClient) -> None:
    """Creates the topics of the cases."""
    await client.call("CreateTopics", 7, create_topics("plain"))
    config = {"retention.ms": "1000", "cleanup.policy": "compact"}
    await client.call("CreateTopics", 7, create_topics("set", config=config))
    while True:
        request = FindCoordinatorRequest("g")
        answer = await client.call("FindCoordinator", 3, request)
        if answer.error_code == 0:
            return


async def own(client: WireClient, kind: int, name: str) -> dict[str, list[Any]]:
    """The settings of a resource that were set on it."""
    _, rows = await describe(client, kind, name)
    return {
        key: row
        for key, row in rows.items()
        if row[1] in _OWN[kind] and key != "min.insync.replicas"
    }


async def play(client: WireClient, case: list[Step], pause: float) -> list[Any]:
    """Plays a case, and undoes its changes.

    Args:
        client: to the broker.
        case: the requests.
        pause: seconds until a change takes effect.

    Returns:
        For each request the error codes, and the settings of the resources.
    """
    seen = []
    for step in case:
        codes = await alter(client, step)
        await asyncio.sleep(pause)
        kinds = {kind for kind, *_ in step[2]}
        state = {
            f"{kind} {name}": await own(client, kind, name)
            for kind, name in RESOURCES
            if kind in kinds
        }
        seen.append([codes, {who: rows for who, rows in state.items() if rows}])
    pairs = [("min.insync.replicas", "1")]
    reset: list[_Resource] = [
        (kind, name, [] if (kind, name) != (BROKER, "") else pairs)
        for kind, name in RESOURCES
    ]
    assert await alter(client, (33, False, reset)) == [0] * len(reset)
    await asyncio.sleep(pause)
    return seen


async def check_key(client: WireClient, name: str, value: str) -> list[list[int]]:
    """The error codes for good and bad values of a broker's key, only validated.

    Returns:
        For this value, a word, an empty text and -5, for one broker and then for all.
    """
    return [
        [
            (await alter(client, (44, True, [(BROKER, who, [(name, SET, text)])])))[0]
            for text in (value, "bad", "", "-5")
        ]
        for who in _BROKERS
    ]
