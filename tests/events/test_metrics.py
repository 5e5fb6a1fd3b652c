"""Metrics count events correctly, in Prometheus' format, and are bounded."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parsed
from tests.broker.test_cluster import heartbeat, join, offsets, stable
from tests.broker.test_records_over_the_wire import batch
from tests.broker.topics import delete_topic
from tests.protocol.in_pieces import finished
from tests.wire.client import WireClient, connected
from tests.wire.requests import produce

from kohort.broker import connection
from kohort.broker.api_counts import ApiCounters, Histogram, errors_in, errors_in_pieces
from kohort.broker.events.schema import BY_NAME
from kohort.broker.server import Broker
from kohort.control.http.server import Control
from kohort.control.metrics import metrics
from kohort.control.metrics.groups import LONGEST_NAME, MOST_GROUPS, OTHERS
from kohort.control.metrics.metrics import MOST_TOPICS
from kohort.protocol.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.apis.k42_delete_groups import DeleteGroupsRequest
from kohort.protocol.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import APIS

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
FAST = {"group.initial.rebalance.delay.ms": 0}
Labels = frozenset[tuple[str, str]]


class Scraping:
    """A broker and a client that scrapes it.

    Attributes:
        broker: the broker.
        wire: a client of it.
        http: a client of its HTTP port.
        port: that port.
    """

    def __init__(
        self,
        broker: Broker,
        wire: WireClient,
        http: aiohttp.ClientSession,
        port: int,
    ) -> None:
        self.broker = broker
        self.wire = wire
        self.http = http
        self.port = port

    async def text(self, **headers: str) -> tuple[str, str]:
        """(content type, text) of the metrics."""
        async with self.http.get("/metrics", headers=headers) as answer:
            assert answer.status == 200
            return answer.headers["Content-Type"], await answer.text()

    async def samples(self) -> dict[str, dict[Labels, float]]:
        """Values by name and by labels; each of them is there once."""
        _, text = await self.text()
        found: dict[str, dict[Labels, float]] = {}
        for family in parsed(text):
            for sample in family.samples:
                rows = found.setdefault(sample.name, {})
                labels = frozenset(sample.labels.items())
                assert labels not in rows, sample
                rows[labels] = sample.value
        return found

    async def value(self, name: str, **labels: str) -> float | None:
        """One value; None if it is not there."""
        rows = (await self.samples()).get(name, {})
        return rows.get(frozenset(labels.items()))

    async def json(self) -> dict[str, Any]:
        """The same as JSON."""
        async with self.http.get("/metrics.json") as answer:
            found: dict[str, Any] = await answer.json()
            return found


@contextlib.asynccontextmanager
async def scraping(nodes: int = 1, **config: object) -> AsyncIterator[Scraping]:
    """A broker and a scraper; keys have ``_`` in place of dots."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    async with (
        Broker(FAST | settings, nodes=nodes) as broker,
        Control(broker) as control,
        aiohttp.ClientSession(control.url) as http,
        connected(broker) as wire,
    ):
        yield Scraping(broker, wire, http, control.port)


async def leave(client: WireClient, member_id: str, group: str = "g") -> None:
    """LeaveGroup."""
    request = LeaveGroupRequest(group, "", [MemberIdentity(member_id)])
    assert (await client.call("LeaveGroup", 4, request)).error_code == 0


async def test_a_group_as_it_stands() -> None:
    """State, members, generation; one state is 1, and the others are 0."""
    async with scraping() as s:
        member_id = await stable(s.wire)
        samples = await s.samples()
        states = {dict(k)["state"]: v for k, v in samples["kohort_group_state"].items()}
        assert states == {
            "Empty": 0,
            "PreparingRebalance": 0,
            "CompletingRebalance": 0,
            "Assigning": 0,
            "Reconciling": 0,
            "Stable": 1,
        }
        assert await s.value("kohort_group_members", group="g") == 1
        assert await s.value("kohort_group_generation", group="g") == 1
        assert await s.value("kohort_groups", state="Stable") == 1
        await leave(s.wire, member_id)
        assert await s.value("kohort_group_members", group="g") == 0
        assert await s.value("kohort_group_state", group="g", state="Empty") == 1
        assert await s.value("kohort_groups", state="Stable") == 0
        assert (
            await s.value("kohort_group_departures_total", group="g", cause="left") == 1
        )


async def test_a_consumer_group_as_it_stands() -> None:
    """Its state is one of its protocol, its generation is the epoch."""
    async with scraping() as s:
        await stable(s.wire, "classic")
        request = ConsumerGroupHeartbeatRequest(
            "c",
            "m",
            rebalance_timeout_ms=9_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        answer = await s.wire.call("ConsumerGroupHeartbeat", 1, request)
        assert answer.error_code == 0
        epoch = answer.member_epoch
        assert await s.value("kohort_group_generation", group="c") == epoch
        assert await s.value("kohort_group_state", group="c", state="Stable") == 1
        rows = {row["group"]: row for row in (await s.json())["groups"]}
        assert rows["classic"]["type"] == "classic"
        assert (rows["c"]["type"], rows["c"]["protocol"]) == ("consumer", "uniform")


async def test_rebalances_by_cause_and_how_long_they_take() -> None:
    """Those that began, by why; of those that ended how long, by the stream's times."""
    async with scraping() as s:
        await stable(s.wire)
        await stable(s.wire, "other")
        name = "kohort_group_rebalances_total"
        assert await s.value(name, group="g", cause="member_joined") == 1
        count = "kohort_group_rebalance_duration_seconds_count"
        assert await s.value(count, group="g") == 1
        times = {
            e["kind"]: e["time_ns"]
            for e in s.broker.events.recent("g")
            if e["kind"] in {"rebalance_started", "assignment_made"}
        }
        took = (times["assignment_made"] - times["rebalance_started"]) / 1e9
        total = await s.value("kohort_group_rebalance_duration_seconds_sum", group="g")
        assert total == pytest.approx(took, abs=1e-6)


async def test_accounts_are_made_for_those_who_ask() -> None:
    """The first scrape makes the accounts of all rebalances since the port is open."""
    async with scraping() as s:
        for group in "g", "h":
            await stable(s.wire, group)
        events = s.broker.events
        kinds = {event["kind"] for event in events.recent()}
        assert "assignment_made" in kinds
        assert "rebalance_account" not in kinds
        count = "kohort_group_rebalance_duration_seconds_count"
        for group in "g", "h":
            assert await s.value(count, group=group) == 1
        accounts = [e for e in events.recent() if e["kind"] == "rebalance_account"]
        assert len(accounts) == 2


async def test_commits_refusals_and_lag() -> None:
    """Commits and their offsets, refusals by error, and the lag in records."""
    async with scraping(group_max_size=1) as s:
        s.broker.cluster.create_topic("t", 1)
        await s.wire.call("Produce", 9, produce((0, batch(b"1", b"2", b"3"))))
        await stable(s.wire)
        assert (await join(s.wire)).error_code != 0
        await s.wire.call("OffsetCommit", 8, offsets(1, group="simple"))
        assert await s.value("kohort_group_lag_records", group="simple", topic="t") == 2
        await s.wire.call("OffsetCommit", 8, offsets(9, group="simple"))
        assert await s.value("kohort_group_lag_records", group="simple", topic="t") == 0
        assert await s.value("kohort_group_commits_total", group="simple") == 2
        assert (
            await s.value("kohort_group_committed_offsets_total", group="simple") == 2
        )
        await s.wire.call("OffsetCommit", 8, offsets(1, group="g"))
        error = {"group": "g", "error": "UNKNOWN_MEMBER_ID"}
        assert await s.value("kohort_group_commit_refusals_total", **error) == 1
        error = {"group": "g", "error": "GROUP_MAX_SIZE_REACHED"}
        assert await s.value("kohort_group_join_refusals_total", **error) == 1
        delete_topic(s.broker, "t")
        lag = (await s.samples()).get("kohort_group_lag_records", {})
        assert not lag


async def test_what_may_happen_is_there_as_zero() -> None:
    """So that `increase` sees the first time, too; the causes are all of the schema."""
    async with scraping(group_max_size=1) as s:
        await stable(s.wire)
        samples = await s.samples()
        causes = {
            dict(k)["cause"]: v
            for k, v in samples["kohort_group_rebalances_total"].items()
        }
        expected = dict.fromkeys(BY_NAME["rebalance_started"].causes, 0)
        assert causes == expected | {"member_joined": 1}
        full = {"group": "g", "error": "GROUP_MAX_SIZE_REACHED"}
        assert await s.value("kohort_group_join_refusals_total", **full) == 0
        await join(s.wire)
        assert await s.value("kohort_group_join_refusals_total", **full) == 1
        late = {"group": "g", "error": "UNKNOWN_MEMBER_ID"}
        assert await s.value("kohort_group_commit_refusals_total", **late) == 0


async def test_requests_errors_and_latency_by_api() -> None:
    """Each answer is counted once, and its errors, wherever in it they are."""
    async with scraping() as s:
        member_id = await stable(s.wire)
        for _ in range(3):
            assert await heartbeat(s.wire, member_id) == 0
        await heartbeat(s.wire, "unknown-member")
        await s.wire.call("OffsetCommit", 8, offsets(1, topic="unknown"))
        requests = "kohort_api_requests_total"
        assert await s.value(requests, api="Heartbeat") == 4
        assert await s.value(requests, api="JoinGroup") == 2
        assert await s.value("kohort_api_latency_seconds_count", api="Heartbeat") == 4
        errors = (await s.samples())["kohort_api_errors_total"]
        assert {frozenset(dict(k).values()): v for k, v in errors.items()} == {
            frozenset({"Heartbeat", "UNKNOWN_MEMBER_ID"}): 1,
            frozenset({"JoinGroup", "MEMBER_ID_REQUIRED"}): 1,
            frozenset({"OffsetCommit", "UNKNOWN_TOPIC_OR_PARTITION"}): 1,
        }


async def test_requests_that_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them counts: here a second passes whenever the time is looked at."""
    async with scraping() as s:
        monkeypatch.setattr(connection, "monotonic", itertools.count(1).__next__)
        assert await heartbeat(s.wire, "unknown-member") == ErrorCode.UNKNOWN_MEMBER_ID
        assert await s.value("kohort_api_slow_total", api="Heartbeat") == 1


async def test_waiting_is_part_of_latency() -> None:
    """A join that waits for the initial delay is in the bucket of that delay."""
    async with scraping(group_initial_rebalance_delay_ms=300) as s:
        # The first scrape of a process also loads modules.
        assert (await join(s.wire, "")).error_code == ErrorCode.INVALID_GROUP_ID
        name = "kohort_api_latency_seconds_bucket"
        before = await s.value(name, api="JoinGroup", le="0.25")
        assert before is not None
        await join(s.wire)
        # The first of the two got a member id to join with.
        assert await s.value(name, api="JoinGroup", le="0.25") == before + 1
        assert await s.value(name, api="JoinGroup", le="+Inf") == 3


async def test_nothing_is_counted_where_nobody_can_ask() -> None:
    """Without an HTTP port requests cost nothing more, and with one no longer."""
    async with Broker(FAST) as broker, connected(broker) as client:
        node = broker.cluster.nodes[1]
        await stable(client)
        assert node.counters is None
        async with Control(broker):
            await stable(client, "h")
            assert node.counters is not None
        assert node.counters is None
        await stable(client, "i")


async def test_the_process_and_its_nodes() -> None:
    """Memory, CPU, the loop's lag, connections, and the running nodes."""
    async with scraping(nodes=2) as s:
        await s.broker.stop_node(2)
        samples = await s.samples()
        assert samples["process_resident_memory_bytes"][frozenset()] > 2**20
        assert samples["process_cpu_seconds_total"][frozenset()] > 0
        assert samples["kohort_loop_lag_worst_seconds"][frozenset()] >= 0
        running = samples["kohort_node_running"]
        assert running == {
            frozenset({("node", "1")}): 1,
            frozenset({("node", "2")}): 0,
        }
        assert await s.value("kohort_node_connections", node="1") == 1
        run = {"run": s.broker.events.run, "version": (await s.json())["version"]}
        assert await s.value("kohort_run_info", **run) == 1


async def test_both_formats_and_their_rules() -> None:
    """Prometheus' format or OpenMetrics, as asked for; names as both want them."""
    async with scraping() as s:
        await stable(s.wire)
        content_type, text = await s.text()
        assert content_type.startswith("text/plain; version=")
        families = {f.name: f for f in parsed(text) if f.name.startswith("kohort_")}
        for name, family in families.items():
            assert (
                family.documentation.endswith(".") or "1 or 0" in family.documentation
            )
            assert family.type in {"gauge", "counter", "histogram"}
            if family.type == "counter":
                assert all(x.name.endswith("_total") for x in family.samples)
            if family.type == "histogram":
                assert name.endswith("_seconds")
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        content_type, text = await s.text(**accept)
        assert content_type.startswith("application/openmetrics-text")
        found = open_metrics(text)  # type: ignore[no-untyped-call]
        assert {f.name for f in found} >= {"kohort_group_members"}


async def test_the_documented_metrics_are_those_that_there_are() -> None:
    """Each has a row in docs/reference/metrics.md, with its type and labels."""
    rows = re.findall(
        r"^\| `(kohort_\w+)` \| (\w+) \|([^|]*)\|", DOCUMENT.read_text(), re.MULTILINE
    )
    documented = {
        name: (kind, labels.replace("`", "").strip()) for name, kind, labels in rows
    }
    assert len(rows) == len(documented)
    async with scraping() as s:
        s.broker.cluster.create_topic("t", 1)
        await stable(s.wire)
        await heartbeat(s.wire, "unknown-member")
        _, text = await s.text()
        exposed = {}
        for family in parsed(text):
            if family.name.startswith("kohort_"):
                is_counter = family.type == "counter"
                name = family.name + ("_total" if is_counter else "")
                exposed[name] = family.type
        assert exposed == {name: kind for name, (kind, _) in documented.items()}
        for name, rows_of in (await s.samples()).items():
            stem = re.sub("_(bucket|count|sum)$", "", name)
            for labels in rows_of if stem in documented else ():
                found = {key for key, _ in labels} - {"le"}
                assert found == {*documented[stem][1].split(", ")} - {""}, name


def test_what_the_document_says_to_ask_can_be_asked() -> None:
    """Each metric that it names anywhere is a row of its table, or a part of one."""
    text = DOCUMENT.read_text()
    known = set()
    for name, kind in re.findall(r"^\| `(kohort_\w+)` \| (\w+)", text, re.MULTILINE):
        parts = ("", "_bucket", "_count", "_sum") if kind == "histogram" else ("",)
        known |= {name + part for part in parts}
    asked = re.findall(r"kohort_\w+(?=[{[)\s])", text)
    assert len(asked) > 10
    assert known.issuperset(asked)


async def test_odd_names_are_labels_all_the_same() -> None:
    """Whatever a group is called, the text can be read, and has it."""
    odd = ['a"b\\c', "two\nlines", "smörgås 🙂", "{}", ""]
    async with scraping() as s:
        for group in odd:
            request = offsets(1, group=group)
            s.broker.cluster.topics.by_name.get("t") or s.broker.cluster.create_topic(
                "t", 1
            )
            await s.wire.call("OffsetCommit", 8, request)
        await stable(s.wire, OTHERS)
        await stable(s.wire, "x" * (LONGEST_NAME + 1))
        samples = await s.samples()
        names = {dict(k)["group"] for k in samples["kohort_group_members"]}
        assert {*odd[:4], OTHERS} <= names
        assert await s.value("kohort_group_members", group=OTHERS) == 2


async def test_groups_beyond_the_limit_are_added_up() -> None:
    """Groups up to the limit have their own series; the sums cover all groups."""
    async with scraping() as s:
        s.broker.cluster.create_topic("t", 1)
        beyond = 5
        for number in range(MOST_GROUPS + beyond):
            await stable(s.wire, f"g{number}")
        await s.wire.call("OffsetCommit", 8, offsets(0, group="late"))
        samples = await s.samples()
        members = samples["kohort_group_members"]
        assert len(members) == MOST_GROUPS + 1
        assert sum(members.values()) == MOST_GROUPS + beyond
        assert members[frozenset({("group", OTHERS)})] == beyond
        assert (
            sum(samples["kohort_group_rebalances_total"].values())
            == MOST_GROUPS + beyond
        )
        assert samples["kohort_groups"][frozenset({("state", "Stable")})] == (
            MOST_GROUPS + beyond
        )
        # No state is everybody's.
        states = {dict(k)["group"] for k in samples["kohort_group_state"]}
        assert OTHERS not in states
        assert await s.value("kohort_group_commits_total", group=OTHERS) == 1


async def test_topics_beyond_the_limit_are_added_up() -> None:
    """The topics with the largest lags have their own series."""
    async with scraping() as s:
        for number in range(MOST_TOPICS + 3):
            s.broker.cluster.create_topic(f"t{number}", 1)
            values = [b"x"] * (number + 1)
            rows = produce((0, batch(*values)), topic=f"t{number}")
            await s.wire.call("Produce", 9, rows)
            await s.wire.call("OffsetCommit", 8, offsets(0, f"t{number}"))
        lag = (await s.samples())["kohort_group_lag_records"]
        assert len(lag) == MOST_TOPICS
        count = MOST_TOPICS + 3
        assert sum(lag.values()) == count * (count + 1) / 2
        others = frozenset({("group", "g"), ("topic", OTHERS)})
        assert lag[others] == 1 + 2 + 3 + 4
        # One that is called so is one of them, however far behind.
        s.broker.cluster.create_topic(OTHERS, 1)
        rows = produce((0, batch(*[b"x"] * 100)), topic=OTHERS)
        await s.wire.call("Produce", 9, rows)
        await s.wire.call("OffsetCommit", 8, offsets(0, OTHERS))
        lag = (await s.samples())["kohort_group_lag_records"]
        assert len(lag) == MOST_TOPICS
        assert lag[others] == 1 + 2 + 3 + 4 + 100


# -- requests


@pytest.mark.parametrize("api", APIS, ids=lambda api: str(api.name))
def test_errors_are_found_in_every_answer(api: Any) -> None:
    """Whatever answers are made of, nothing in an empty one is an error."""
    assert not errors_in(api.module.__dict__[f"{api.name}Response"]())


def test_errors_are_found_in_rows_of_rows() -> None:
    """As in an OffsetCommit's partitions of topics."""
    commit: Any = importlib.import_module("kohort.protocol.apis.k08_offset_commit")
    rows = [
        commit.OffsetCommitResponsePartition(p, code) for p, code in [(0, 3), (1, 0)]
    ]
    topics = [commit.OffsetCommitResponseTopic("t", partitions=rows)]
    answer = commit.OffsetCommitResponse(0, topics)
    assert errors_in(answer) == {3}
    assert finished(errors_in_pieces(answer)) == ({3}, 0)
    many = commit.OffsetCommitResponse(0, topics * 1000)
    errors, yields = finished(errors_in_pieces(many))
    assert errors == {3}
    assert yields >= 2
    assert errors_in(None) == frozenset()


def test_histograms_put_bounds_into_the_lower_bucket() -> None:
    """A value that is a bound is not above it."""
    found = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        found.observe(value)
    assert (found.buckets, found.total) == ([2, 2, 1], 7.5)


def test_a_request_from_before_has_no_latency() -> None:
    """A request decoded before counting began has its errors counted, not its time."""
    counters = ApiCounters()
    api = APIS[0]
    counters.answered(api, 0.0, frozenset({3}))
    assert counters.by_api[api].errors == {3: 1}
    assert sum(counters.by_api[api].seconds.buckets) == 0


async def test_snapshots_give_others_their_turn() -> None:
    """Many offsets are looked at in slices."""
    async with scraping() as s:
        s.broker.cluster.create_topic("t", 1)
        for number in range(50):
            await s.wire.call("OffsetCommit", 8, offsets(number, group=f"g{number}"))
        found = await asyncio.gather(*(s.json() for _ in range(5)))
        assert all(len(each["groups"]) == 50 for each in found)


async def test_groups_that_go_while_they_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are in no state, and take no place of others."""
    monkeypatch.setattr(metrics, "OFFSETS_PER_TURN", 1)
    async with scraping() as s:
        s.broker.cluster.create_topic("t", 1)
        names = [f"g{number}" for number in range(60)]
        for name in names:
            await s.wire.call("OffsetCommit", 8, offsets(0, group=name))
        scrapes = [asyncio.create_task(s.json()) for _ in range(4)]
        for name in reversed(names):
            await s.wire.call("DeleteGroups", 2, DeleteGroupsRequest([name]))
        for found in await asyncio.gather(*scrapes):
            assert "Dead" not in found["states"]
            assert len(found["groups"]) <= len(names)
