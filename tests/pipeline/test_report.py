"""The report's queries, and the page made from their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scipy.stats import binom
from tests.pipeline import report_builds
from tests.pipeline.sql_tables import Made

from kohort.pipeline import report
from kohort.pipeline.report.comparison import compare
from kohort.pipeline.report.page import page
from kohort.pipeline.report.queries import BY_NAME, Answer, Answers, ask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VOID = {"meta", "link", "br", "img", "hr", "input", "wbr"}
NO_NUMBERS_OF_OURS = {"term", "about", "command", "query", "name"}
"""CSS classes of texts whose digits are not numbers: words, names, commands."""


class Reader(HTMLParser):
    """Collects a page's ids, links, and texts with digits outside links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.unlinked: list[str] = []
        self.policy = ""
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self._open: list[tuple[str, Mapping[str, str]]] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Adds to the stack of open elements."""
        said = {key: value or "" for key, value in attrs}
        self.ids |= {said["id"]} if "id" in said else set()
        for key in ("href", "src", "srcset", "action", "data"):
            if key in said and not said[key].startswith("#"):
                self.addresses.append(said[key])
        if said.get("http-equiv") == "Content-Security-Policy":
            self.policy = said["content"]
        if tag == "a":
            self.links.append(said["href"])
        if tag not in VOID:
            self._open.append((tag, said))

    def handle_endtag(self, tag: str) -> None:
        """Closes the last open element; asserts that elements nest."""
        opened, _ = self._open.pop()
        assert opened == tag

    def handle_data(self, data: str) -> None:
        """Collects text with digits that is neither linked nor exempt."""
        tags = {tag for tag, _ in self._open}
        if tags & {"script", "style"}:
            return
        self.texts.append(data)
        if not re.search(r"\d", data) or tags & {
            "title",
            "summary",
            "thead",
            "caption",
        }:
            return
        classes = {
            name for _, said in self._open for name in said.get("class", "").split()
        }
        links = [said["href"] for tag, said in self._open if tag == "a"]
        is_linked = any(link.startswith("#q-") for link in links)
        if not is_linked and not classes & NO_NUMBERS_OF_OURS:
            self.unlinked.append(data)


def spoken(text: str) -> str:
    """Text of a page, with line breaks normalised."""
    return re.sub(r"\s+", " ", "".join(Reader(text).texts))


@pytest.fixture(scope="module")
def empty(spark: SparkSession) -> Answers:
    """Query results for tables without rows."""
    return report_builds.answers(Made, spark)


def test_each_query_runs_and_says_what_its_columns_mean(bad: Answers) -> None:
    """Each query returns rows here, so that the report shows each."""
    assert bad.keys() == report.QUERIES.keys()
    for name, answer in bad.items():
        assert len(answer), name
        query = BY_NAME[name]
        assert query.says
        known = {column.name for table in query.tables for column in table.columns}
        assert {*answer.columns} <= known | query.meanings.keys()
        assert query.meanings.keys() - {*answer.columns} == set()


def test_every_number_leads_to_a_query_that_is_there(
    bad: Answers, large: Answers, empty: Answers
) -> None:
    """Numbers in sentences and tables link to queries; no link is dead."""
    for answers in (bad, large, empty):
        read = Reader(page(answers, about=report_builds.ABOUT))
        assert read.unlinked == []
        assert {
            link for link in read.links if link.removeprefix("#") not in read.ids
        } == set()
        assert {f"q-{name}" for name in report.QUERIES} <= read.ids
    compared = compare(large["run_metrics"], "scenario")
    links = (
        Reader(page(answers, about={}, compared=each)).links
        for answers, each in ((bad, None), (large, compared))
    )
    used = {link for each in links for link in each if "#q-" in link}
    assert {f"#q-{name}" for name in report.QUERIES} == used


def test_the_page_asks_nobody_for_anything(bad: Answers) -> None:
    """The page has no external address, and its policy allows none."""
    read = Reader(page(bad, about=report_builds.ABOUT))
    assert read.addresses == ["data:,"]
    assert "default-src 'none'" in read.policy
    assert "connect-src 'none'" in read.policy
    (scripts,) = re.findall(r"script-src ([^;]*)", read.policy)
    assert all(each.startswith("'sha256-") for each in scripts.split())


def test_names_are_texts(bad: Answers) -> None:
    """Names of groups, members, labels, errors and files appear as plain text."""
    text = page(bad, about=report_builds.ABOUT)
    read = Reader(text)
    shown = "".join(read.texts)
    for name in (report_builds.IMAGE, report_builds.SCRIPT, report_builds.LINK):
        assert name in shown
        assert name not in text
    assert "ana⟨U+202E⟩gnp⟨U+200B⟩⟨U+000A⟩⟨U+0000⟩.exe" in shown
    assert "\u202e" not in text


def test_the_numbers_are_those_of_the_queries(bad: Answers) -> None:
    """The summary has these exact sentences."""
    said = spoken(page(bad, about=report_builds.ABOUT))
    for sentence in (
        "1 run, 30 min, between",
        "36 rebalances: 29 ended with an assignment, 7 were interrupted",
        "paused for 124 member-seconds.",
        "no reader for 50 partition-seconds, 0.5 % of the 10,000 partition-seconds",
        "its partitions had no reader for 50 partition-seconds, 2 % of their time:",
        "paused (37.5,",
        "up to 12.5 s) and expired (12.5, up to 12.5 s).",
        "Gaps: 5 events are missing of 4,321.",
        "The data failed checks",
        "1 storm: 6 rebalances that started within 31 s",
        "expired 4 times between 18:00:50 and 18:03:50, repeatedly",
        "had no reader for 12.5 partition-seconds, up to 12.5 s each",
        "Lag grew in 3 of 4 rebalances with known lag, by a median of 600 records",
        "and at most 900; the group caught up a median of 1.5 s after the end",
        "3 commits of 103 were refused",
        "41 records were handled and sent again in 1 partition: the commit of these",
        "1 record was skipped in 1 partition: they were deleted, by retention or",
        "The committed offset went back 1 time in 1 partition:",
        "7 records were received and not committed at the end.",
        "The group was full (group.max.size): 17 refusals",
        "Saves about 55.5 partition-seconds of downtime.",
        "Not certain: something else could look the same.",
        "group.initial.rebalance.delay.ms: 6000 (it was 3000)",
        "The savings are unknown.",
        "Members crashed",
        "it was open for longer than its timeout",
    ):
        assert sentence in said


def test_a_group_has_its_course_in_words_and_charts(bad: Answers) -> None:
    """Rebalances are sentences; charts have members, capacity and lag."""
    text = page(bad, about=report_builds.ABOUT)
    said = spoken(text)
    for sentence in (
        "18:01:50: a member sent no heartbeat for its session timeout",
        "After 1 s, 2 members had their assignment; partitions had no reader for 1",
        "It was 4 s long and ended without an assignment (cut)",
        "A part for each of the 6 most affected groups follows; 1 other group has no",
    ):
        assert sentence in said
    ids = Reader(text).ids
    assert {"chart-members-0", "chart-capacity-0", "chart-group-lag-0"} <= ids
    assert text.count('<details class="group" open>') == 3


def test_several_runs_are_told_apart(bad: Answers) -> None:
    """Restarts and rebalances name their run, expired sessions how many there are."""
    alone = spoken(page(bad, about=report_builds.ABOUT))
    assert "Rebalances of run" not in alone
    assert "Run r" not in alone

    def repeated(query: str, **changed: Any) -> Answer:
        """Five rows like the first one that has a member that left, or any."""
        rows = bad[query].rows
        first = next((row for row in rows if row.get("how") == "left"), rows[0])
        made = ({**first, **changed, "run": f"r{number}"} for number in range(5))
        return Answer(bad[query].columns, tuple(made))

    several = {query: repeated(query) for query in ("runs", "restarts")}
    text = page(
        {**bad, **several, "expired": repeated("expired", runs=2)},
        about=report_builds.ABOUT,
    )
    said = spoken(text)
    assert re.search(r"Rebalances of run \S+, which has the most downtime", said)
    assert "expired 4 times in 2 runs, between 18:00:50 and 18:03:50" in said
    for number in range(3):
        assert f"Run r{number}: 1 time a member left and its process was back" in said
    assert "Run r3" not in said
    assert "2 more series of restarts of this group are in the answer" in said
    assert Reader(text).unlinked == []


def test_the_lag_of_a_group_adds_up_its_partitions(bad: Answers) -> None:
    """Each commit replaces the lag of its partition; the sum is the group's."""
    behind = [0, 0]
    sums = []
    for number in range(20):
        behind[number % 2] = 10 * (number % 7)
        sums.append(sum(behind))
    assert [row["lag"] for row in bad["group_lag"]] == sums


def test_percentiles_have_intervals_that_cover_95_percent(spark: SparkSession) -> None:
    """Durations of 1 to n s: the interval of p50 needs 6 of them, that of p95 92."""
    made = Made(spark)
    sizes = (5, 6, 40, 91, 92, 400)
    made.rows(
        "silver/rebalances",
        *(
            {
                "run": "r",
                "group": str(n),
                "number": place,
                "outcome": "completed",
                "duration_ns": place * 1_000_000_000,
            }
            for n in sizes
            for place in range(1, n + 1)
        ),
    )
    found = {int(row["group"]): row for row in ask(spark, "durations")}
    for part, share, fewest in (("p50", 0.5, 6), ("p95", 0.95, 92)):
        for n in sizes:
            low = found[n][f"duration_{part}_low_s"]
            high = found[n][f"duration_{part}_high_s"]
            if n < fewest:
                assert low is None
                assert high is None
                continue
            assert low <= found[n][f"duration_{part}_s"] <= high
            # The true percentile lies between the ranks low and high if the number of
            # durations below it is from low to high - 1.
            hits = binom.cdf(high - 1, n, share) - binom.cdf(low - 1, n, share)
            assert 0.95 <= hits < 0.985


def test_without_rows_it_says_so(empty: Answers) -> None:
    """Without rows, the report has sensible sentences and no chart."""
    text = page(empty, about={})
    said = "".join(Reader(text).texts)
    for sentence in (
        "These tables have no runs: no events were recorded yet.",
        "The data was not checked",
        "No rebalance to show.",
        "No group is affected.",
        "No member expired.",
        "No commit was refused.",
        "No join was refused.",
        "No finding suggests a setting.",
    ):
        assert sentence in said
    assert "data-chart" not in text
    assert 'href="#transactions"' not in text
    assert len(text) < 100_000


def test_many_runs_and_groups_are_a_few_and_how_many_more(large: Answers) -> None:
    """The page shows the worst first and a spread over runs, and stays small."""
    text = page(large, about=report_builds.ABOUT)
    said = "".join(Reader(text).texts)
    assert "200 runs" in said
    assert "And 275 more." in said
    assert "And at least 188 more." in said
    assert "(by run: 9.97 % to 9.97 %)" in said
    assert "Differences between the runs of a scenario." in said
    assert "All 10 checks of the data passed." in said
    assert len(text) < 3_500_000


def test_a_report_of_some_runs_has_queries_of_those(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A shown query gives the shown number, even if run names have quotes."""
    made = Made(spark)
    name = "it's \\ '; --"
    made.rows(
        "gold/runs",
        {"run": name, "events": 5, "first_ns": 0, "last_ns": 1},
        {"run": "other", "events": 7, "first_ns": 0, "last_ns": 1},
    )
    made.rows(
        "gold/groups", {"run": "other", "group": "g"}, {"run": name, "group": "h"}
    )
    made.rows("gold/quality", {"check": "a", "outcome": "passed"})
    assert ask(spark, "summary").rows[0]["events"] == 12
    narrowed = {each: ask(spark, each, [name]) for each in report.QUERIES}
    assert narrowed["summary"].rows[0]["events"] == 5
    assert [row["group"] for row in narrowed["groups"]] == ["h"]
    assert len(narrowed["quality"]) == 1
    output = tmp_path / "report.html"
    report.write(spark, output, runs=[name], about=report_builds.ABOUT)
    said = "".join(Reader(output.read_text()).texts)
    assert "Only these runs: it's" in said
    assert "kohort pipeline query --name summary --build 2026" in said
    assert report.sql("summary", [name]) in said
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_the_same_tables_make_the_same_report(bad: Answers) -> None:
    """Two reports of the same tables are equal byte for byte."""
    first = page(bad, about=report_builds.ABOUT)
    assert first == page(bad, about=report_builds.ABOUT)
