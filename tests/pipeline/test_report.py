"""The report's queries, and the page made from their answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline import report_builds
from tests.pipeline.played_scenes import played
from tests.pipeline.sql_tables import Made

from kohort.pipeline import report
from kohort.pipeline.report.page import page
from kohort.pipeline.report.queries import Answer, Answers, ask
from kohort.pipeline.report.verdict import verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VOID = {"meta", "link", "br", "img", "hr", "input", "wbr"}


class Reader(HTMLParser):
    """Collects a page's ids, links, addresses and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.policy = ""
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
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
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Closes the last open element; asserts that elements nest."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Collects texts that people see."""
        if not {"script", "style"} & {*self._open}:
            self.texts.append(data)


def spoken(text: str) -> str:
    """Text of a page, with line breaks normalised."""
    return re.sub(r"\s+", " ", "".join(Reader(text).texts))


@pytest.fixture(scope="module")
def empty(spark: SparkSession) -> Answers:
    """Query results for tables without rows."""
    return report_builds.answers(Made, spark)


def test_each_query_has_rows_and_a_part_of_the_page(bad: Answers) -> None:
    """Each is read by the page, and begins with a comment about its result."""
    assert bad.keys() == report.QUERIES.keys()
    text = page(bad, about=report_builds.ABOUT)
    for name, answer in bad.items():
        assert answer.rows, name
        assert report.QUERIES[name].startswith("-- "), name
        without = {**bad, name: Answer(answer.columns, ())}
        assert page(without, about=report_builds.ABOUT) != text, name


def test_links_lead_somewhere_and_nobody_is_asked(bad: Answers, large: Answers) -> None:
    """The page has no external address, and its policy allows none."""
    for answers in (bad, large):
        read = Reader(page(answers, about=report_builds.ABOUT))
        assert {link[1:] for link in read.links} <= read.ids
        assert bool(read.links) == bool(answers["findings"].rows)
        assert read.addresses == ["data:,"]
        assert "default-src 'none'" in read.policy
        assert "connect-src 'none'" in read.policy
        (scripts,) = re.findall(r"script-src ([^;]*)", read.policy)
        assert all(each.startswith("'sha256-") for each in scripts.split())


def test_names_are_texts(bad: Answers) -> None:
    """Names of groups, members, labels and errors appear as plain text."""
    text = page(bad, about=report_builds.ABOUT)
    shown = "".join(Reader(text).texts)
    for name in (report_builds.IMAGE, report_builds.SCRIPT, report_builds.LINK):
        assert name in shown
        assert name not in text
    assert "ana⟨U+202E⟩gnp⟨U+200B⟩⟨U+000A⟩⟨U+0000⟩.exe" in shown
    assert "\u202e" not in text
    assert "None" not in shown


def test_the_numbers_are_those_of_the_queries(bad: Answers) -> None:
    """Ranking, checks, settings with their savings, and parts of groups."""
    said = spoken(page(bad, about=report_builds.ABOUT))
    for sentence in (
        "1 run, 7 groups, 4,321 events, 2026-11-21 18:00:00 to 2026-11-21 18:30:00",
        "lost the most: 50 partition-seconds without a reader, 100 % of the loss of",
        "The data failed a check, so the numbers may be wrong: double_events, 2 of 4,3",
        "The data did not pass a check: missing_events, 5 of 4,321 (gaps <img",
        "group.instance.id: </script><script>window.hit=1</script><!-- (not certain)",
        "group.initial.rebalance.delay.ms: 3000 → 6000",
        "group.max.size: 7",
        "unknown",
        "Members crashed.",
        "a member sent no heartbeat for its session timeout",
        "handled and sent again",
        "timeout: 2",
    ):
        assert sentence in said


def test_ten_groups_are_ranked_and_those_alike_compared(ten: Answers) -> None:
    """Downtime is about that of the played clients, which the broker cannot see.

    A crash begins with the last heartbeat before it, so it is up to 3 s longer.
    """
    truth = {
        group: played(scene).downtime_s for group, scene in report_builds.TEN.items()
    }
    for row in ten["groups"]:
        assert row["downtime_s"] == pytest.approx(truth[row["group"]], rel=0.2, abs=10)
    assert re.sub("<[^>]*>", "", verdict(ten["groups"].rows)) == (
        "In 4 groups of 6 members and 24 partitions, a restart of every member cost 229"
        " partition-seconds eager (orders-eager), 154 cooperative (orders-cooperative),"
        " 150 consumer (orders-consumer) and 140 static eager (orders-static). audit"
        " lost the most: 1,080"
        " partition-seconds without a reader, 37.3 % of the loss of all 10 groups; then"
        " mail (342) and shipping (329)."
    )


def test_a_rebalance_has_the_sentence_of_its_account(ten: Answers) -> None:
    """As `kohort why` prints it; without one, its cause and the member."""
    rows = ten["group_rebalances"].rows
    said = spoken(page(ten, about=report_builds.ABOUT))
    for row in rows:
        assert row["words"].startswith(("Generation ", "After generation "))
        assert row["words"] in said
    older = tuple({**row, "words": None} for row in rows)
    answers = {**ten, "group_rebalances": Answer((), older)}
    assert "for its session timeout (app-0)" in spoken(page(answers, about={}))


def group(name: str, **changed: Any) -> Mapping[str, Any]:
    """A row of the query ``groups``: three eager members were restarted."""
    alike = {"runs": 1, "members": 3, "partitions": 6, "restarts": 3, "restarted": 3}
    nothing = dict.fromkeys(("expired", "refused_full", "other_causes"), 0)
    cost = {"downtime_s": 10.0, "downtime_share": 0.01, "unprocessed_s": 0.0}
    way = {"group_type": "classic", "is_eager": True, "is_static": False}
    way["assignors"] = ["range"]
    own = {"group": name, "away_s": 5.0}
    return {**alike, **nothing, **cost, **way, **own, **changed}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"is_eager": False}, "eager (b) and 10 cooperative (a)"),
        (
            {"group_type": "consumer", "is_eager": False, "assignors": ["uniform"]},
            "eager (b) and 10 consumer (a)",
        ),
        ({"group_type": None, "is_eager": False}, "eager (b) and 10 otherwise (a)"),
        ({"assignors": ["sticky"]}, "range (b) and 10 sticky (a)"),
        ({}, None),
        ({"is_static": True, "restarts": 2}, None),
        ({"is_static": True, "members": 4}, None),
        ({"is_static": True, "away_s": 8.0}, None),
        ({"is_static": True, "other_causes": 1}, None),
        ({"is_static": True, "unprocessed_s": 2.0}, None),
    ],
)
def test_only_groups_alike_are_compared(
    changed: dict[str, Any], said: str | None
) -> None:
    """They differ in assignor, protocol or static membership, and in nothing else."""
    found = str(verdict([group("b", downtime_s=12.0), group("a", **changed)]))
    text = re.sub("<[^>]*>", "", found)
    assert ("In 2 groups" in text) == (said is not None)
    assert said is None or said in text
    assert "b lost the most: 12 partition-seconds" in text


def test_one_group_or_none_has_a_sentence_too() -> None:
    """Without downtime there is nothing to rank."""
    alone = re.sub("<[^>]*>", "", verdict([group("b", downtime_s=12.0)]))
    assert alone == "b lost 12 partition-seconds without a reader, 1 % of the time."
    assert "all the time" in verdict([group("b", downtime_s=0.0)])
    assert "no events were recorded yet" in verdict([])


def test_a_crashed_member_is_dead_from_its_last_sign_of_life(bad: Answers) -> None:
    """It was silent for 20 of its 50 s, until its session expired."""
    rows = bad["group_members"].of(report_builds.SCRIPT)
    second = 1_000_000_000
    for row in rows[:4]:
        assert row["dead_ns"] == row["until_ns"] - 20 * second
    assert [row["dead_ns"] for row in rows[4:]] == [None, None]


def test_several_runs_begin_together_in_charts(bad: Answers) -> None:
    """Their times are those since the start of the run; tables have UTC."""
    other = {"run": "r2", "first_ns": 0, "last_ns": 60_000_000_000, "events": 1}
    (run,) = bad["run_metrics"].rows
    member = {**bad["group_members"].rows[0], "run": "r2", "from_ns": 5_000_000_000}
    more = {
        "run_metrics": Answer((), (run, {**run, **other})),
        "group_members": Answer(
            (),
            (
                {**member, "dead_ns": None, "until_ns": 7_000_000_000},
                *bad["group_members"],
            ),
        ),
    }
    text = page({**bad, **more}, about=report_builds.ABOUT)
    assert "time since the start of the run" in text
    assert '"1970-01-01 00:00:05.000"' in text
    assert "time since the start" not in page(bad, about=report_builds.ABOUT)


def test_without_rows_it_says_so(empty: Answers) -> None:
    """Without rows, the report has sensible sentences and no chart."""
    text = page(empty, about={})
    said = spoken(text)
    for sentence in (
        "These tables have no groups: no events were recorded yet.",
        "The data was not checked",
        "Every partition had a reader all the time.",
        "No finding suggests a setting.",
    ):
        assert sentence in said
    assert "data-chart" not in text


def test_many_runs_and_groups_are_a_few_and_how_many_more(large: Answers) -> None:
    """The page shows the worst first, and stays small."""
    text = page(large, about=report_builds.ABOUT)
    said = spoken(text)
    assert "200 runs, 300 groups" in said
    assert "And 275 more rows." in said
    assert "All 10 checks of the data passed." in said
    assert text.count('<details class="group"') == 12
    assert len(text) < 2_500_000


def test_a_report_of_some_runs_has_queries_of_those(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The command gives the shown numbers, even if run names have quotes."""
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
    assert len(ask(spark, "run_metrics").rows) == 2
    narrowed = {each: ask(spark, each, [name]) for each in report.QUERIES}
    assert [row["events"] for row in narrowed["run_metrics"]] == [5]
    assert [row["group"] for row in narrowed["groups"]] == ["h"]
    assert len(narrowed["quality"].rows) == 1
    output = tmp_path / "report.html"
    report.write(spark, output, runs=[name], about=report_builds.ABOUT)
    said = "".join(Reader(output.read_text()).texts)
    assert (
        "kohort pipeline query --build 20261121T180000.000000Z-abcdef --run 'it'"
        in said
    )
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_the_groups_with_the_most_downtime_are_shown(spark: SparkSession) -> None:
    """Twelve, by the downtime of all their runs; of each the run with the most."""
    made = Made(spark)
    # Of thirteen, each first run of the others is worse than any of g00.
    costs = {"g00": (30.0, 31.0), "g01": (0.0, 40.0)}
    costs |= {f"g{n:02}": (0.0, 50.0) for n in range(2, 13)}
    groups = [
        {"run": run, "group": group, "downtime_s": cost}
        for group, both in costs.items()
        for run, cost in zip(("r1", "r2"), both, strict=True)
    ]
    made.rows("gold/groups", *groups)
    made.rows("gold/runs", {"run": "r1", "last_ns": 9}, {"run": "r2", "last_ns": 9})
    rows = [
        {"run": each["run"], "group": each["group"], "number": 1, "from_ns": 1}
        | {"unread_ns": 5, "cause": "member_left"}
        for each in groups
    ]
    keys = ("run", "group", "number", "from_ns")
    few = [{key: row[key] for key in keys if key != "number"} for row in rows]
    made.rows("silver/memberships", *few)
    made.rows("silver/unread", *rows)
    rows = [{k: v for k, v in row.items() if k != "from_ns"} for row in rows]
    made.rows("silver/rebalances", *rows)
    for name in ("group_gaps", "group_members", "group_rebalances"):
        found = [(row["run"], row["group"]) for row in ask(spark, name)]
        assert found == [("r2", group) for group in sorted(costs) if group != "g01"]


def test_refusals_are_counted_by_group_kind_and_cause(spark: SparkSession) -> None:
    """A name that was refused twice is one name, and a member without one is none."""
    made = Made(spark)
    kicked = {"kind": "member_kicked", "cause": "full", "name": "a"}
    made.rows(
        "silver/refusals",
        *(
            {"group": "g", "kind": "member_refused", "cause": "full", **each}
            for each in (
                {"name": "a", "time_ns": 3},
                {"name": "a", "time_ns": 1},
                {"time_ns": 7},
                {**kicked, "time_ns": 5},
            )
        ),
    )
    assert [tuple(row.values()) for row in ask(spark, "refusals")] == [
        ("g", "member_refused", "full", 3, 1, 1, 7),
        ("g", "member_kicked", "full", 1, 1, 5, 5),
    ]


def test_the_same_tables_make_the_same_report(bad: Answers) -> None:
    """Two reports of the same tables are equal byte for byte."""
    first = page(bad, about=report_builds.ABOUT)
    assert first == page(bad, about=report_builds.ABOUT)
