"""Rows of the report's tables, as a browser shows them; computed without Spark.

The report needs the extra ``kohort[pipeline]``, as all tests of this mark do.
"""

from __future__ import annotations

import re
from html import unescape

import pytest

from kohort.pipeline.report.queries import QUERIES, Answer

RUN = {
    "run": "r-1",
    "labels": {"scenario": "roll"},
    "first_ns": 0,
    "last_ns": 90 * 10**9,
    "events": 4321,
    "groups": 2,
    "rebalances": 0,
    "paused_s": 1.5,
    "downtime_share": 0.25,
    "downtime_s": None,
}
SUMMARY = {"runs": 1, "covered_s": 90.0, "all_groups": 2}


def cells(row: str) -> list[str]:
    """Texts of a row's cells."""
    found = re.findall(r"<(th|td)[^>]*>(.*?)</\1>", row, re.DOTALL)
    texts = (unescape(re.sub("<[^>]*>", "", text)) for _, text in found)
    return [" ".join(text.split()) for text in texts]


@pytest.mark.spark
def test_a_row_has_a_cell_for_each_column() -> None:
    """Numbers have units and a link to the query; null is a dash."""
    from kohort.pipeline.report.page import page

    answers = {name: Answer((), ()) for name in QUERIES} | {
        "runs": Answer((*RUN,), (RUN,)),
        "summary": Answer((), ({**RUN, **SUMMARY},)),
    }
    text = page(answers, about={})
    table = text.partition("<caption>Runs, most downtime")[2].partition("</table>")[0]
    head, row = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    assert dict(zip(cells(head), cells(row), strict=True)) == {
        "run": "r-1",
        "labels": "scenario=roll",
        "from, UTC": "1970-01-01 00:00:00",
        "to, UTC": "1970-01-01 00:01:30",
        "events": "4,321",
        "groups": "2",
        "rebalances": "0",
        "paused, member-s": "1.5",
        "downtime, share": "25 %",
        "downtime, partition-s": "\N{EN DASH}",
    }
    assert row.count('href="#q-runs"') == 8
