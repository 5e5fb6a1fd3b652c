"""A snapshot in Prometheus's format, with the client library's process metrics."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.registry import Collector

from kohort.broker.coordinator.state import GroupState
from kohort.broker.events.account.values import WORK_ENDED
from kohort.broker.events.delivery_words import WENT_BACK
from kohort.broker.events.words import (
    REBALANCE_CAUSES,
    TRANSACTION_ENDS,
    UNREAD_CAUSES,
)
from kohort.control.metrics.groups import DELIVERED
from kohort.control.metrics.metrics import Snapshot

_VERSIONS = {"text/plain": "0.0.4", "application/openmetrics-text": "1.0.0"}
_JOIN_ERRORS = (
    "FENCED_INSTANCE_ID",
    "GROUP_MAX_SIZE_REACHED",
    "INCONSISTENT_GROUP_PROTOCOL",
    "UNKNOWN_MEMBER_ID",
)
_COMMIT_ERRORS = (
    "FENCED_INSTANCE_ID",
    "ILLEGAL_GENERATION",
    "REBALANCE_IN_PROGRESS",
    "UNKNOWN_MEMBER_ID",
)
_EPOCH_ERRORS = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
_STATES = [state.value for state in GroupState if state is not GroupState.DEAD]


def exposed(snapshot: Snapshot, format_: str) -> tuple[bytes, str]:
    """A snapshot as text.

    Args:
        snapshot: of `Metrics`.
        format_: a media type: ``application/openmetrics-text``, or Prometheus' own.

    Returns:
        The text and its content type.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Kohort(snapshot))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    encode, content_type = choose_encoder(f"{format_}; version={_VERSIONS[format_]}")
    return encode(registry), content_type


class _Kohort(Collector):
    """Metrics of a snapshot, family by family."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        """All families."""
        snapshot = self._snapshot
        return itertools.chain(
            _of_broker(snapshot),
            _of_apis(snapshot["apis"]),
            _of_groups(snapshot["groups"]),
            _of_transactions(snapshot["transactions"]),
        )


def _of_broker(snapshot: Snapshot) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "kohort_run_info", "1; labels: version and run.", labels=["version", "run"]
    )
    info.add_metric([snapshot["version"], snapshot["run"]], 1)
    yield info
    for name, key, says in (
        ("kohort_node_running", "running", "1 if the node runs, else 0."),
        ("kohort_node_connections", "connections", "Open connections of a node."),
        ("kohort_node_groups", "groups", "Groups that a node coordinates."),
    ):
        gauge = GaugeMetricFamily(name, says, labels=["node"])
        for node in snapshot["nodes"]:
            gauge.add_metric([str(node["node"])], node[key])
        yield gauge
    events = CounterMetricFamily("kohort_events", "Events of a node.", labels=["node"])
    for node in snapshot["nodes"]:
        events.add_metric([str(node["node"])], node["events"])
    yield events
    yield _histograms(
        "kohort_loop_lag_seconds",
        "Delay of the event loop: how late it runs its callbacks.",
        [],
        [([], snapshot["loop_lag_seconds"])],
    )
    yield GaugeMetricFamily(
        "kohort_loop_lag_worst_seconds",
        "The largest lag of the event loop in the last minute.",
        value=snapshot["loop_lag_worst_seconds"],
    )
    states = GaugeMetricFamily("kohort_groups", "Groups by state.", labels=["state"])
    for state, count in snapshot["states"].items():
        states.add_metric([state], count)
    yield states


def _of_apis(apis: Sequence[Snapshot]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "kohort_api_requests", "Answered requests.", labels=["api"]
    )
    for row in apis:
        requests.add_metric([row["api"]], sum(_buckets(row["latency_seconds"])))
    yield requests
    slow = CounterMetricFamily(
        "kohort_api_slow",
        "Requests that blocked the event loop for more than 100 ms.",
        labels=["api"],
    )
    for row in apis:
        slow.add_metric([row["api"]], row["slow"])
    yield slow
    yield _counters(
        "kohort_api_errors",
        "Responses with this error, at the top level or in a row.",
        ["api", "error"],
        apis,
        "errors",
    )
    yield _histograms(
        "kohort_api_latency_seconds",
        "Time from reading a request to writing its response to the socket,"
        " including intended waits.",
        ["api"],
        [([row["api"]], row["latency_seconds"]) for row in apis],
    )


def _of_groups(groups: Sequence[Snapshot]) -> Iterator[Metric]:
    yield from _standing(groups)
    for key, name, label, known, says in (
        (
            "rebalances",
            "kohort_group_rebalances",
            "cause",
            REBALANCE_CAUSES,
            "Started rebalances, by cause.",
        ),
        (
            "departures",
            "kohort_group_departures",
            "cause",
            (),
            "Departed members, by cause.",
        ),
        (
            "refusals",
            "kohort_group_join_refusals",
            "error",
            _JOIN_ERRORS,
            "Refused joins, by error.",
        ),
        (
            "unread_seconds",
            "kohort_group_unread_partition_seconds",
            "cause",
            UNREAD_CAUSES.keys() - {WORK_ENDED},
            "Partition-seconds without a reader, once accounted for.",
        ),
        (
            "commit_refusals",
            "kohort_group_commit_refusals",
            "error",
            _COMMIT_ERRORS,
            "Commits refused as a whole or in part, by error.",
        ),
        (
            "delivery",
            "kohort_group_delivery_records",
            "what",
            DELIVERED,
            "Records that members received, and were sent again or skipped.",
        ),
        (
            "went_back",
            "kohort_group_offsets_went_back",
            "cause",
            WENT_BACK,
            "Commits below the committed offset, by partition.",
        ),
    ):
        yield _counters(name, says, ["group", label], groups, key, known)
    for key, name, says in (
        ("commits", "kohort_group_commits", "Accepted commits."),
        ("offsets", "kohort_group_committed_offsets", "Offsets in them."),
    ):
        counter = CounterMetricFamily(name, says, labels=["group"])
        for row in groups:
            counter.add_metric([row["group"]], row[key])
        yield counter
    for key, name, says in (
        (
            "rebalance_seconds",
            "kohort_group_rebalance_duration_seconds",
            "Duration of rebalances from start to assignment.",
        ),
        (
            "pause_seconds",
            "kohort_group_pause_seconds",
            "Pause of a member in a rebalance, from JoinGroup to assignment.",
        ),
    ):
        rows = [([row["group"]], row[key]) for row in groups]
        yield _histograms(name, says, ["group"], rows)

    findings = GaugeMetricFamily(
        "kohort_group_findings",
        "Known problems that `kohort why` finds now, by code.",
        labels=["group", "code"],
    )
    for row in groups:
        for code, count in row["findings"].items():
            findings.add_metric([row["group"], code], count)
    yield findings


def _of_transactions(counts: Snapshot) -> Iterator[Metric]:
    states = GaugeMetricFamily(
        "kohort_transactions", "Transactional ids by state.", labels=["state"]
    )
    for state, count in counts["states"].items():
        states.add_metric([state], count)
    yield states
    yield GaugeMetricFamily(
        "kohort_transaction_open_seconds",
        "Time since the oldest open transaction began; 0 without one.",
        value=counts["open_seconds"],
    )
    ended = CounterMetricFamily(
        "kohort_transactions_ended",
        "Transactions that were committed or aborted, by cause.",
        labels=["result", "cause"],
    )
    known = {
        ("committed" if cause == "client_committed" else "aborted", cause): 0
        for cause in TRANSACTION_ENDS
    }
    found = {(row["result"], row["cause"]): row["count"] for row in counts["ended"]}
    for labels, count in (known | found).items():
        ended.add_metric(labels, count)
    yield ended
    fenced = CounterMetricFamily(
        "kohort_transaction_fenced_requests",
        "Requests refused because of the producer's epoch, by error.",
        labels=["error"],
    )
    for error, count in (dict.fromkeys(_EPOCH_ERRORS, 0) | counts["fenced"]).items():
        fenced.add_metric([error], count)
    yield fenced
    yield CounterMetricFamily(
        "kohort_transaction_held_back_records",
        "Records that read_committed consumers could read once transactions ended.",
        value=counts["held_back"],
    )


def _standing(groups: Sequence[Snapshot]) -> Iterator[Metric]:
    """Current state of groups."""
    state = GaugeMetricFamily(
        "kohort_group_state",
        "1 for the current state of a group, 0 for the others.",
        labels=["group", "state"],
    )
    members = GaugeMetricFamily(
        "kohort_group_members", "Members of a group.", labels=["group"]
    )
    generation = GaugeMetricFamily(
        "kohort_group_generation", "A group's generation.", labels=["group"]
    )
    lag = GaugeMetricFamily(
        "kohort_group_lag_records",
        "Lag of a group, in records, on partitions with a committed offset.",
        labels=["group", "topic"],
    )
    for row in groups:
        name = row["group"]
        if row["state"] is not None:
            for each in _STATES:
                state.add_metric([name, each], each == row["state"])
            generation.add_metric([name], row["generation"])
        members.add_metric([name], row["members"])
        for topic, records in row["lag"].items():
            lag.add_metric([name, topic], records)
    yield from (state, members, generation, lag)


def _counters(
    name: str,
    says: str,
    labels: Sequence[str],
    rows: Sequence[Snapshot],
    key: str,
    known: Iterable[str] = (),
) -> Metric:
    """Counters of rows' mappings: by the row's name, and by their keys.

    Those that are `known` are exported as 0 from the start: `increase` and `rate` do
    not count the first appearance of a series.
    """
    family = CounterMetricFamily(name, says, labels=labels)
    zeros = dict.fromkeys(known, 0)
    for row in rows:
        for word, count in (zeros | row[key]).items():
            family.add_metric([row[labels[0]], word], count)
    return family


def _histograms(
    name: str,
    says: str,
    labels: Sequence[str],
    rows: Iterable[tuple[Sequence[str], Mapping[str, Any] | None]],
) -> Metric:
    family = HistogramMetricFamily(name, says, labels=labels)
    for values, found in rows:
        if found is not None:
            sums = itertools.accumulate(found["buckets"])
            bounds = [*map(str, found["bounds"]), "+Inf"]
            family.add_metric(values, [*zip(bounds, sums, strict=True)], found["sum"])
    return family


def _buckets(found: Mapping[str, Any] | None) -> Sequence[int]:
    return () if found is None else found["buckets"]
