"""The report's queries, and the page that is made of what they give."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipeline import report_builds
from tests.pipeline.sql_tables import Made

from kohort.pipeline import report
from kohort.pipeline.report.page import page
from kohort.pipeline.report.queries import BY_NAME, Answers, ask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VOID = {"meta", "link", "br", "img", "hr", "input"}
NO_NUMBERS_OF_OURS = {"term", "about", "command", "query", "name"}
"""Classes of what has digits and is no number: words, names, commands."""


class Reader(HTMLParser):
    """Reads a page: its ids, its links, and texts with digits that are no links."""

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
        """Remembers what is open."""
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
        """What ends is what was opened last: the page nests."""
        opened, _ = self._open.pop()
        assert opened == tag

    def handle_data(self, data: str) -> None:
        """Text: a digit in it is linked, or no number of ours."""
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
    """The text of a page, however its lines are broken."""
    return re.sub(r"\s+", " ", "".join(Reader(text).texts))


@pytest.fixture(scope="module")
def empty(spark: SparkSession) -> Answers:
    """What they say of tables without rows."""
    return report_builds.answers(Made, spark)


def test_each_query_runs_and_says_what_its_columns_mean(bad: Answers) -> None:
    """Each has rows here, so that each is seen in the report."""
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
    """In sentences and tables alike; and all other links lead somewhere, too."""
    for answers in (bad, large, empty):
        read = Reader(page(answers, about=report_builds.ABOUT))
        assert read.unlinked == []
        assert {
            link for link in read.links if link.removeprefix("#") not in read.ids
        } == set()
        assert {f"q-{name}" for name in report.QUERIES} <= read.ids
    links = (Reader(page(answers, about={})).links for answers in (bad, large))
    used = {link for each in links for link in each if "#q-" in link}
    assert {f"#q-{name}" for name in report.QUERIES} == used


def test_the_page_asks_nobody_for_anything(bad: Answers) -> None:
    """It has no address but its own parts, and a policy that allows none."""
    read = Reader(page(bad, about=report_builds.ABOUT))
    assert read.addresses == ["data:,"]
    assert "default-src 'none'" in read.policy
    assert "connect-src 'none'" in read.policy
    (scripts,) = re.findall(r"script-src ([^;]*)", read.policy)
    assert all(each.startswith("'sha256-") for each in scripts.split())


def test_names_are_texts(bad: Answers) -> None:
    """Whatever groups, members, labels, errors and files are called."""
    text = page(bad, about=report_builds.ABOUT)
    read = Reader(text)
    shown = "".join(read.texts)
    for name in (report_builds.IMAGE, report_builds.SCRIPT, report_builds.LINK):
        assert name in shown
        assert name not in text
    assert "ana⟨U+202E⟩gnp⟨U+200B⟩⟨U+000A⟩⟨U+0000⟩.exe" in shown
    assert "\u202e" not in text


def test_the_numbers_are_those_of_the_queries(bad: Answers) -> None:
    """The sentences that a reader starts with, word for word."""
    said = spoken(page(bad, about=report_builds.ABOUT))
    for sentence in (
        "1 run of 30 min, between",
        "36 rebalances: 29 ended with an assignment, 7 were interrupted",
        "paused for 124 member-seconds, 0.5 % of the 24,700 member-seconds",
        "Partitions had no reader for 50 partition-seconds together.",
        "Its partitions had no reader for 50 partition-seconds together: paused (37.5,",
        "12.5 s at the longest) and expired (12.5, 12.5 s at the longest).",
        "There are gaps: 5 events are missing of 4,321.",
        "The data failed checks",
        "1.68 % of its capacity",
        "1 storm: 6 rebalances that started within 31 s",
        "expired 4 times between 18:00:50 and 18:03:50, again and again",
        "12.5 partition-seconds together, 12.5 s at the longest",
        "Lag grew in 3 of 4 rebalances that commits tell of, by 600 records at",
        "the median and 900 at the most; it was worked off 1.5 s after the end",
        "3 commits of 103 were refused",
        "At least 41 records were processed twice, after commits that were refused",
        "It was full (group.max.size): 17 refusals",
        "rather sure (0.7 of 1, from 7 cases)",
        "a hint (0.35 of 1, from 17 cases)",
        "at the most, 11 rebalances and 55.5 member-seconds.",
    ):
        assert sentence in said


def test_without_rows_it_says_so(empty: Answers) -> None:
    """Sane sentences, and no chart."""
    text = page(empty, about={})
    said = "".join(Reader(text).texts)
    for sentence in (
        "There are no runs in these tables: nothing was recorded yet.",
        "The data was not checked",
        "There is no rebalance to be shown.",
        "No group is affected by anything that is looked at.",
        "No member expired.",
        "No commit was refused.",
        "No join was refused.",
        "No rule found a setting that may help.",
    ):
        assert sentence in said
    assert "data-chart" not in text
    assert len(text) < 100_000


def test_many_runs_and_groups_are_a_few_and_how_many_more(large: Answers) -> None:
    """The worst first; a spread over runs; and a page that a browser can hold."""
    text = page(large, about=report_builds.ABOUT)
    said = "".join(Reader(text).texts)
    assert "200 runs" in said
    assert "And 285 more." in said
    assert "And at least 188 more." in said
    assert "(by run: 9.97 % to 9.97 %)" in said
    assert "How much the runs of a scenario differ." in said
    assert "All 10 checks of the data passed." in said
    assert len(text) < 3_500_000


def test_a_report_of_some_runs_has_queries_of_those(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Names of runs with quotes, too; the query that is shown gives the number."""
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
    assert "Only of the runs: it's" in said
    assert "kohort pipeline query --name summary --build 2026" in said
    assert report.sql("summary", [name]) in said
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_the_same_tables_make_the_same_report(bad: Answers) -> None:
    """Byte for byte."""
    first = page(bad, about=report_builds.ABOUT)
    assert first == page(bad, about=report_builds.ABOUT)
