"""Seven incidents of a group of real clients: all views agree, and are true.

The truth is the clients' own reports: the partitions that each of them read, and since
when. The views are the sentences and findings of ``kohort why``, the metrics, the
account of each rebalance (which the page shows and Spark reads), and its rows in
tables.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.commands import serving
from tests.interop.scene import HEARTBEAT_MS, PARTITIONS
from tests.pipeline import silver_oracle
from tests.workers.libraries import AIOKAFKA, CONFLUENT, JAVA, KAFKA_PYTHON, KOHORT

from kohort.broker.events.account import Account
from kohort.broker.events.findings.explain import SHORTEST_NS
from kohort.broker.events.findings.words import product
from kohort.broker.events.words import UNREAD_CAUSES
from kohort.control.why import History, history

if TYPE_CHECKING:
    from tests.commands import Serving
    from tests.interop.scene import Scene
    from tests.workers.libraries import Library

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        "KOHORT_INTEROP_BOOTSTRAP" in os.environ, reason="has to be configured"
    ),
]

Json = dict[str, Any]
Play = Callable[["Library", str, Callable[["Scene"], None]], None]

MORTAL_MS = 3_000
"""session.timeout.ms and max.poll.interval.ms of members that should expire."""
BUSY_NS = 3_000_000_000
"""How late a client may act on a busy machine."""
CLOCKS_NS = 50_000_000
"""Maximum difference between the times of two processes."""
MILLION = 1_000_000
DIAGNOSES = frozenset(
    {"rolling-restart", "crashed", "crash-loop", "group-full", "max-poll-interval"}
    | {"hung", "session-too-short", "session-too-long", "commit-from-outside"}
)
"""Findings that name the kind of incident."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One broker for all tests, of three nodes with a data directory."""
    settings = (
        "group.initial.rebalance.delay.ms=0",
        "group.min.session.timeout.ms=1000",
        "group.max.size=3",
    )
    words = [word for each in settings for word in ("--set", each)]
    folder = tmp_path_factory.mktemp("broker")
    words += ["--nodes", "3", "--data-dir", str(folder / "data")]
    with serving("--http", "0", *words) as running:
        yield running


@pytest.fixture
def here() -> None:
    """Killed members expire by the session timeout: the findings are about that."""


@pytest.fixture(scope="module")
def bootstrap(broker: Serving) -> str:
    """Its addresses, for `play`."""
    return ",".join(broker.addresses)


# -- the truth


@dataclass(slots=True)
class Stop:
    """A member's own report that it has stopped reading a partition.

    Attributes:
        member: its name.
        how: the reason in the worker's event.
        at_ns: when.
        seen_ns: when the broker has seen it, at the latest; None: not known.
    """

    member: str
    how: str
    at_ns: int
    seen_ns: int | None


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without a reader of a partition, by the clients' own reports.

    Attributes:
        stop: its beginning.
        until_ns: its end: the next reader reports that it has the partition.
        waits_ns: the next reader did not have it yet.
    """

    stop: Stop
    until_ns: int
    waits_ns: int

    @property
    def least_ns(self) -> int:
        """Its minimum length, however late clients report."""
        if self.stop.seen_ns is None:
            return 0
        # The broker sees the end of a killed client's connection a little later.
        later_ns = BUSY_NS if self.stop.how == "killed" else 0
        return max(self.waits_ns - self.stop.seen_ns - later_ns, 0)

    def most_ns(self, hidden_ns: int) -> int:
        """Its maximum length for the broker.

        Args:
            hidden_ns: how long the broker cannot see that a member is stalled.
        """
        told_ns = self.until_ns - self.stop.at_ns
        if self.stop.how == "stalled" and hidden_ns:
            return told_ns - hidden_ns + BUSY_NS
        if self.stop.seen_ns == self.stop.at_ns:
            # Its last heartbeat was earlier, or it reports late which partitions it
            # gave up.
            return told_ns + HEARTBEAT_MS * MILLION + BUSY_NS
        return told_ns + CLOCKS_NS


def gaps(scene: Scene, hidden_ns: int) -> dict[int, list[Gap]]:
    """By partition."""
    is_eager = scene.assignor != "cooperative-sticky"
    found: dict[int, list[Gap]] = defaultdict(list)
    reads: dict[str, frozenset[int]] = {}
    waits: dict[str, int] = {}
    stops: dict[int, Stop] = {}
    words = [(*word, m.name) for m in scene.everybody for word in m.reads]
    for at_ns, how, now, name in sorted(words, key=lambda word: word[0]):
        for stop in stops.values():
            if how == "closed" and stop.member == name:
                stop.seen_ns = at_ns  # it left between its last two events
        # An eager member revokes before it joins, a cooperative one when it gets its
        # assignment, and a stalled one goes after max.poll.interval.ms.
        is_late = hidden_ns if how == "stalled" else is_eager and how != "killed"
        others = [each for other, each in reads.items() if other != name]
        for partition in reads.get(name, frozenset()).difference(now, *others):
            stops[partition] = Stop(name, how, at_ns, None if is_late else at_ns)
        for partition in stops.keys() & now:
            gap = Gap(stops.pop(partition), at_ns, waits.get(name, 0))
            found[partition].append(gap)
        reads[name] = now
        if is_eager or how == "assigned":
            waits[name] = at_ns
    return found


# -- the views


def _by_events(account: Account) -> Account:
    """An account without what the broker looked up in its logs."""
    rows = [replace(row, records=None, log_ends=None) for row in account.unread]
    return replace(account, unread=tuple(rows))


class Views:
    """All of kohort's views of a group."""

    def __init__(self, broker: Serving, group: str) -> None:
        def ask(path: str) -> str:
            with urllib.request.urlopen(f"{broker.http}{path}") as answer:
                text: str = answer.read().decode()
            return text

        self.group = group
        self.events: list[Json] = json.loads(ask(f"/events.json?group={group}"))[
            "events"
        ]
        self.why: Json = json.loads(ask(f"/why.json?group={group}&full=true"))
        self.metrics = ask("/metrics")
        self.published = [e for e in self.events if e["kind"] == "rebalance_account"]
        self.accounts = [Account.of(event) for event in self.published]

    @property
    def is_whole(self) -> bool:
        """Returns whether each rebalance has its account."""
        started = sum(e["kind"] == "rebalance_started" for e in self.events)
        ends = [account.outcome for account in self.accounts]
        return started == len(ends) and ends[-1:] == ["completed"]

    def sentence(self, cause: str) -> str:
        """The sentence for the last rebalance with a cause."""
        found = [r["words"] for r in self.why["rebalances"] if r["cause"] == cause]
        text: str = found[-1]
        return text

    @property
    def findings(self) -> Mapping[str, Json]:
        """By code."""
        return {each["code"]: each for each in self.why["findings"]}

    def unread_ns(self, cause: str | None = None) -> int:
        """Partition-time without a reader, for one cause or all."""
        return sum(
            row.duration_ns * row.count
            for account in self.accounts
            for row in account.unread
            if cause in {None, row.cause}
        )

    def unread_since(self, since_ns: int) -> Counter[int]:
        """By partition, its time without a reader since a moment."""
        found: Counter[int] = Counter()
        for row in (row for account in self.accounts for row in account.unread):
            for number in (n for numbers in row.parts.values() for n in numbers):
                found[number] += max(row.until_ns - max(row.since_ns, since_ns), 0)
        return found

    def counted(self, metric: str, label: str) -> dict[str, float]:
        """A metric of the group by one of its labels, without zeros."""
        return {
            sample.labels.get(label, ""): sample.value
            for family in text_string_to_metric_families(self.metrics)
            for sample in family.samples
            if (sample.name, sample.labels.get("group")) == (metric, self.group)
            if sample.value
        }

    def agree(self) -> None:
        """Checks that all views agree."""
        raw = [e for e in self.events if e["kind"] != "rebalance_account"]
        read_off = history(raw, self.group)
        assert [*read_off.rebalances] == [*map(_by_events, self.accounts)]
        self._why_agrees(read_off)
        self._metrics_agree(read_off)
        self._tables_agree()

    def _why_agrees(self, read_off: History) -> None:
        for account, told in zip(self.accounts, self.why["rebalances"], strict=True):
            assert account.own_fields().items() <= told.items()
            assert told["words"] == read_off.explain(account)
            unread = f"{product(account.unread_ns, 'partition')} in total"
            is_worth_a_word = any(r.duration_ns >= SHORTEST_NS for r in account.unread)
            assert (unread in told["words"]) == is_worth_a_word
        assert self.why["unread_ns"] == self.unread_ns()
        if self.unread_ns():
            assert product(self.unread_ns(), "partition") in self.why["summary"]
        assert self.why["findings"] == [f.as_json() for f in read_off.findings]

    def _metrics_agree(self, read_off: History) -> None:
        facts = read_off.facts
        causes = Counter(each.cause for each in self.accounts)
        assert self.counted("kohort_group_rebalances_total", "cause") == causes
        gone = Counter(life.how.value for life in facts.lives if life.how)
        assert self.counted("kohort_group_departures_total", "cause") == gone
        refused = Counter((r.cause == "commit", r.error) for r in facts.refusals)
        for is_commit, name in ((False, "join"), (True, "commit")):
            counted = self.counted(f"kohort_group_{name}_refusals_total", "error")
            assert counted == {e: n for (c, e), n in refused.items() if c == is_commit}
        unread = self.counted("kohort_group_unread_partition_seconds_total", "cause")
        rows = {row.cause for account in self.accounts for row in account.unread}
        assert unread == pytest.approx({c: self.unread_ns(c) / 1e9 for c in rows})
        pauses = [p for a in self.accounts for p in a.pauses if p.count != 0]
        count = self.counted("kohort_group_pause_seconds_count", "").get("", 0)
        paused = self.counted("kohort_group_pause_seconds_sum", "").get("", 0)
        assert count == len(pauses)
        assert paused == pytest.approx(sum(p.duration_ns for p in pauses) / 1e9)

    def _tables_agree(self) -> None:
        """Checks the rows of silver, as its oracle computes them from the events."""
        unread, pauses = Counter[int](), Counter[int]()
        for row in silver_oracle.unread(self.events):
            unread[row["number"]] += row["unread_ns"]
        for row in silver_oracle.pauses(self.events):
            pauses[row["number"]] += row["until_ns"] - row["from_ns"]
        for number, account in enumerate(self.accounts, 1):
            assert unread[number] == account.unread_ns
            assert pauses[number] == account.paused_ns


class Incident:
    """A scene from the moment of an incident in its group.

    Args:
        scene: its group is at rest.
        broker: of the group.
    """

    def __init__(self, scene: Scene, broker: Serving) -> None:
        scene.until_settled()
        self.scene = scene
        self.broker = broker
        self.since_ns = time.time_ns()

    def over(self, *diagnoses: str, hidden_ms: int = 0) -> Views:
        """Waits until the group is at rest; checks that all views agree, and are true.

        Args:
            diagnoses: the expected findings.
            hidden_ms: how long a stalled member goes on sending heartbeats.
        """
        scene = self.scene
        scene.until_settled()
        views = scene.until_broker(
            "each rebalance has its account",
            lambda: Views(self.broker, scene.group),
            lambda found: found.is_whole,
        )
        views.agree()
        assert views.findings.keys() & DIAGNOSES == {*diagnoses}
        unread = views.unread_since(self.since_ns)
        hidden_ns = hidden_ms * MILLION
        for partition, all_of_them in gaps(scene, hidden_ns).items():
            mine = [gap for gap in all_of_them if gap.stop.at_ns >= self.since_ns]
            least_ns = sum(gap.least_ns for gap in mine)
            most_ns = sum(gap.most_ns(hidden_ns) for gap in mine)
            assert least_ns <= unread[partition] <= most_ns, (partition, mine)
        return views


# -- the incidents


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_rolling_restart(play: Play, broker: Serving, assignor: str) -> None:
    """Members restart one after the other; cooperative members do not pause."""

    def told(scene: Scene) -> None:
        members = [scene.start(f"member-{number}") for number in range(3)]
        incident = Incident(scene, broker)
        for member in members:
            back = scene.prepare(f"{member.name}-again")
            scene.close(member)
            scene.until_settled()
            scene.join(back, client=member.name)
            scene.until_settled()
        views = incident.over("rolling-restart")
        title = views.findings["rolling-restart"]["title"]
        assert "3 members restarted one after the other" in title
        assert "member-2 left, no reason given" in views.sentence("member_left")
        assert "member-2 joined" in views.sentence("member_joined")
        is_eager = assignor == "range"
        causes = {"left", "paused" if is_eager else "revoked"}
        assert {c for c in UNREAD_CAUSES if views.unread_ns(c)} == causes
        assert any(account.paused_ns for account in views.accounts) == is_eager

    play(CONFLUENT, assignor, told)


def test_kill(play: Play, broker: Serving) -> None:
    """A killed member's partitions have no reader until its session times out."""

    def told(scene: Scene) -> None:
        scene.start("survivor")
        mortal = scene.start("mortal", session_ms=MORTAL_MS)
        incident = Incident(scene, broker)
        scene.kill(mortal)
        views = incident.over("crashed")
        (evidence,) = views.findings["crashed"]["evidence"]
        told, _, cost = evidence["text"].partition("; ")
        assert told.startswith("mortal's session expired")
        assert told in views.sentence("session_expired")
        unread = product(views.unread_ns("expired"), "partition")
        assert cost == f"partitions had no reader for {unread}"

    play(KAFKA_PYTHON, "range", told)


def test_full_group(play: Play, broker: Serving) -> None:
    """A killed member keeps its place: its successor is refused until it expires."""

    def told(scene: Scene) -> None:
        scene.start("first")
        scene.start("second")
        mortal = scene.start("mortal", session_ms=MORTAL_MS)
        incident = Incident(scene, broker)
        too_early, again = scene.prepare("too-early"), scene.prepare("again")
        scene.kill(mortal)
        scene.join(too_early, client="mortal")
        scene.failure(too_early)
        scene.until_settled()
        scene.join(again, client="mortal")
        views = incident.over("crashed", "group-full")
        (evidence,) = views.findings["group-full"]["evidence"]
        assert evidence["text"].startswith("mortal at ")
        assert evidence["text"].endswith("was refused once")
        assert "mortal joined" in views.sentence("member_joined")
        refusals = views.counted("kohort_group_join_refusals_total", "error")
        assert refusals == {"GROUP_MAX_SIZE_REACHED": 1}

    play(AIOKAFKA, "range", told)


def stalls(
    scene: Scene, broker: Serving, *, session_ms: int, poll_ms: int | None
) -> Incident:
    """A member stalls with a batch until another one reads all; then both go on."""
    steady = scene.start("steady")
    slow = scene.start("slow", session_ms=session_ms, poll_ms=poll_ms)
    incident = Incident(scene, broker)
    slow.send("stall")
    scene.produce(400)
    scene.until("slow has a batch", lambda: "stalled" in slow.said)
    scene.until("steady has all", lambda: len(steady.partitions) == PARTITIONS)
    slow.send("go_on")
    scene.until("slow gave up", lambda: len(steady.partitions) < PARTITIONS)
    return incident


@pytest.mark.parametrize(
    ("library", "reason"),
    [(CONFLUENT, "no reason given"), (JAVA, "consumer poll timeout has expired.")],
    ids=["librdkafka", "java"],
)
def test_slow_poller(
    play: Play, broker: Serving, library: Library, reason: str
) -> None:
    """It leaves when its application does not poll; that is no crash in the finding.

    Heartbeats continue until then, so only the finding has the time before.
    """

    def told(scene: Scene) -> None:
        incident = stalls(scene, broker, session_ms=MORTAL_MS, poll_ms=MORTAL_MS)
        views = incident.over("max-poll-interval", hidden_ms=MORTAL_MS)
        assert reason in views.sentence("member_left")
        finding = views.findings["max-poll-interval"]
        unread = product(views.unread_ns("left"), "partition")
        assert f"partitions had no reader for {unread}" in finding["title"]
        (evidence,) = finding["evidence"]
        assert "slow left" in evidence["text"]
        assert "did not process its 6 partitions for 3.0 s before" in evidence["text"]

    play(library, "range", told)


@pytest.mark.parametrize("library", [KOHORT, AIOKAFKA], ids=lambda each: each.name)
def test_blocked_loop(play: Play, broker: Serving, library: Library) -> None:
    """Its session expires while it is connected, which is not a crash."""

    def told(scene: Scene) -> None:
        incident = stalls(scene, broker, session_ms=MORTAL_MS, poll_ms=None)
        views = incident.over("hung")
        assert "slow's session expired" in views.sentence("session_expired")
        finding = views.findings["hung"]
        unread = product(views.unread_ns("expired"), "partition")
        assert f"partitions had no reader for {unread}" in finding["title"]

    play(library, "range", told)
