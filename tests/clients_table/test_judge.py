"""The judge of the table, on evidence made by hand."""

from __future__ import annotations

from typing import Any

from tests.clients_table.evidence import Evidence
from tests.clients_table.judge import Facts, about, judge, short, verdict, words
from tests.clients_table.rows import BY_NAME, ROWS
from tests.workers.process import Line

BEGIN = 100
ROW = BY_NAME["Heartbeat-NOT_COORDINATOR"]


def consumed(at: int, *offsets: int, value: str | None = None) -> Line:
    """Records of partition 0."""
    records = [[0, offset, "", value or f"0:{offset}"] for offset in offsets]
    return Line(at, {"event": "consumed", "records": records})


def owns(at: int, *partitions: int) -> Line:
    """An assignment."""
    return Line(at, {"event": "owns", "why": "assigned", "partitions": [*partitions]})


def committed(at: int, offset: int) -> dict[str, Any]:
    """A commit of partition 0, as the broker saw it."""
    offsets = [{"topic": "orders", "partition": 0, "offset": offset}]
    return {"kind": "offsets_committed", "wall_ns": at, "offsets": offsets}


def judged(
    one: list[Line], two: list[Line] | None = None, *commits: dict[str, Any]
) -> Facts:
    """The facts of a play that went from 100 to 1000."""
    lines = {"one": one, "two": two or []}
    return judge(
        Evidence(
            lines,
            {"one": None, "two": None},
            commits,
            done_ns=BEGIN,
            undone_ns=BEGIN,
            ended_ns=1000,
            back_ns=BEGIN,
            strikes=1,
        )
    )


def test_records_that_were_not_committed_may_come_again() -> None:
    """The other member gets the records that the first one had not committed."""
    facts = judged(
        [owns(1, 0), consumed(2, 0, 1), owns(5)],
        [owns(6, 0), consumed(7, 1)],
        committed(3, 1),
    )
    assert (facts.twice, facts.twice_committed, facts.lost) == (1, 0, 0)


def test_records_that_were_committed_may_not() -> None:
    """The other member gets records that had been committed before its assignment."""
    facts = judged(
        [owns(1, 0), consumed(2, 0, 1), owns(5)],
        [owns(6, 0), consumed(7, 0, 1)],
        committed(3, 2),
    )
    assert (facts.twice, facts.twice_committed) == (0, 2)
    assert verdict(facts, ROW) == "doubles records"
    assert "**a few records again that were committed**" in words(facts, ROW)


def test_a_commit_while_a_record_is_on_its_way_again_explains_it() -> None:
    """The commit at the member's assignment counts, not a later one."""
    facts = judged(
        [owns(1, 0), consumed(2, 0), owns(4)],
        [owns(5, 0), consumed(8, 0)],
        committed(6, 1),
    )
    assert (facts.twice, facts.twice_committed) == (1, 0)


def test_a_member_reads_nothing_again_by_itself() -> None:
    """Within an assignment a record does not come again after its own commit."""
    again = consumed(5, 0)
    acknowledged = Line(4, {"event": "committed", "offsets": [[0, 1]]})
    lines = [owns(1, 0), consumed(2, 0), acknowledged, again]
    assert judged(lines, None, committed(3, 1)).twice_committed == 1
    lines.remove(acknowledged)
    assert judged(lines, None, committed(3, 1)).twice == 1


def test_what_is_committed_and_was_given_to_no_member_is_lost() -> None:
    """A skipped offset is a lost record."""
    facts = judged([owns(1, 0), consumed(2, 0, 2)], None, committed(3, 3))
    assert facts.lost == 1
    assert verdict(facts, ROW) == "loses records"


def test_other_bytes_than_were_written_are_garbled() -> None:
    """A record with a value other than its position is garbled."""
    facts = judged([owns(1, 0), consumed(2, 0, value="0:x")])
    assert facts.garbled == 1


def test_errors_have_the_names_of_the_protocol() -> None:
    """Libraries' messages are shortened to the error's name, if they have one."""
    assert short("KafkaError{code=NOT_COORDINATOR,val=16}") == "NOT_COORDINATOR"
    assert short("KafkaError{code=82,val=82,str=...}") == "FENCED_INSTANCE_ID"
    assert short("commit failed: CommitFailedError()") == "CommitFailedError"
    assert short("aiokafka.errors.InvalidTopic: [Error 17]") == "InvalidTopic"
    assert short("dial tcp 127.0.0.1:4711: refused") == "dial tcp ...: refused"


def test_numbers_that_differ_are_rounded() -> None:
    """Numbers of records are rounded: they depend on the moment of the fault."""
    assert [about(each) for each in (1, 9, 10, 1177)] == [
        *("a few records", "a few records", "some 10 records", "some 1,000 records")
    ]


def test_rows_have_names_of_their_own() -> None:
    """Results are stored by the name of the row."""
    assert len(BY_NAME) == len(ROWS)
