"""Findings about transactions: where they show, and where they do not."""

from __future__ import annotations

from tests.events.build import SECOND, Stream
from tests.events.findings import findings, quiet
from tests.events.transactions import Producer

from kohort.broker.events.findings.fold import fold_all
from kohort.control.why import history


def scene(timeout_s: float = 60) -> tuple[Stream, Producer]:
    """A group whose member ana owns t-0 to t-3, and a producer."""
    stream = quiet("ana")
    producer = Producer(stream, timeout_s=timeout_s)
    producer.initializes()
    return stream, producer


def test_an_open_transaction_holds_back_a_group() -> None:
    """The first finding: which producer, which partitions, for how long."""
    stream, producer = scene()
    producer.begins(3)
    stream.wait(40)
    now = history(stream.events, "g", stream.now, {("t", 3): 120, ("t", 9): 5})
    (finding,) = now.findings
    assert finding.code == "open-transaction"
    assert finding.title == (
        "An open transaction of tx has held the last stable offset of t-3 for 40.0 s;"
        " 120 records wait for read_committed consumers"
    )
    (evidence,) = finding.evidence
    assert evidence.text == (
        "tx (client app, producer 4236) began a transaction with t-3;"
        " its timeout of 1 min ends in 20.0 s"
    )
    producer.ends("client_committed")
    assert {*findings(stream)} == {"long-transaction"}


def test_a_transaction_elsewhere() -> None:
    """A transaction of other partitions and groups does not concern the group."""
    stream, producer = scene()
    producer.begins(0, topic="u", groups=["h"])
    stream.wait(40)
    assert history(stream.events, "g", stream.now).findings == ()


def test_a_transaction_that_has_just_begun() -> None:
    """Under a second, every transaction is open for a while."""
    stream, producer = scene()
    producer.begins(0)
    stream.wait(0.9)
    assert history(stream.events, "g", stream.now).findings == ()


def test_many_open_transactions() -> None:
    """The oldest one gives the time; a partition counts once."""
    stream = quiet("ana", "ben")
    for number in range(5):
        producer = Producer(stream, f"tx-{number}")
        producer.initializes()
        producer.begins(number, number + 1)
        stream.wait(2)
    (finding,) = history(stream.events, "g", stream.now).findings
    assert finding.title == (
        "5 open transactions have held the last stable offset of t-0, t-1, t-2 and"
        " 3 others for up to 10.0 s"
    )
    assert len(finding.evidence) == 5


def test_partitions_that_were_added_later() -> None:
    """The transaction holds all of them since it began."""
    stream, producer = scene()
    producer.begins(0)
    stream.wait(5)
    producer.begins(1)
    stream.wait(5)
    title = history(stream.events, "g", stream.now).findings[0].title
    assert title.endswith("offset of t-0 and t-1 for 10.0 s")


def test_markers_that_are_missing() -> None:
    """A committed transaction holds the partitions without a marker."""
    stream, producer = scene()
    producer.begins(0, 1)
    stream.wait(1)
    producer.prepares("client_committed")
    producer.is_marked(0)
    stream.wait(3)
    (finding,) = history(stream.events, "g", stream.now).findings
    assert "stable offset of t-1 for 4.0 s" in finding.title
    assert finding.evidence[0].text.endswith(
        "it was committed 3.0 s ago, and some partitions have no marker yet"
    )


def test_offsets_in_an_open_transaction() -> None:
    """They are pending: the next owner of the partitions waits."""
    stream, producer = scene()
    producer.begins(0, topic="out", groups=["g"])
    stream.wait(15)
    (finding,) = history(stream.events, "g", stream.now).findings
    assert (finding.code, finding.title) == (
        "pending-offsets",
        "Offsets of this group have been in an open transaction of tx for 15.0 s",
    )


def test_a_group_without_members_reads_what_it_commits() -> None:
    """A consumer with assign() has no assignment: its commits name its partitions."""
    stream = Stream()
    row = {"topic": "t", "partition": 3, "offset": 1, "end_offset": 1}
    stream.say("offsets_committed", offsets=[row])
    producer = Producer(stream)
    producer.initializes()
    producer.begins(3)
    stream.wait(5)
    (finding,) = history(stream.events, "g", stream.now).findings
    assert "t-3" in finding.title


def test_a_transaction_that_was_aborted_by_its_timeout() -> None:
    """The producer's next request is part of it, not another finding."""
    stream, producer = scene(timeout_s=10)
    producer.begins(0)
    stream.wait(12)
    producer.epoch += 1
    producer.ends("timeout", held_back=7)
    producer.is_fenced(epoch=1)
    found = findings(stream)
    assert found.keys() == {"transaction-timeout"}
    assert found["transaction-timeout"].title == (
        "Transactions were aborted by their timeout: 1 time"
    )
    aborted, refused = found["transaction-timeout"].evidence
    assert aborted.text == (
        "tx (client app, producer 4236) began a transaction; the coordinator aborted it"
        " after 12.0 s, which released 7 records"
    )
    assert refused.text == (
        "Produce of client app with epoch 1 was refused (INVALID_PRODUCER_EPOCH)"
        " after the timeout"
    )


def test_a_transaction_that_timed_out_as_the_clock_was_moved() -> None:
    """Its producer had no time to commit."""
    stream, producer = scene()
    producer.begins(3)
    stream.clock_moves(61, credits_heartbeats=True)
    stream.wait(61)
    producer.ends("timeout")
    found = findings(stream)
    assert {*found} == {"clock-advanced"}
    assert found["clock-advanced"].title == (
        "A test moved the clock ahead by 1 min 1 s: 1 transaction timed out"
    )


def test_two_producers_with_one_transactional_id() -> None:
    """Each takes it from the other."""
    stream, producer = scene()
    producer.begins(0)
    stream.wait(2)
    producer.initializes("app-2")
    producer.is_fenced(epoch=1, client_id="app-1")
    producer.begins(0)
    producer.initializes("app-1")
    producer.is_fenced(epoch=2, client_id="app-2")
    found = findings(stream)
    assert found.keys() == {"producer-fenced"}
    finding = found["producer-fenced"]
    assert finding.title == (
        "A producer lost the transactional.id tx to another one, 2 times in turns:"
        " 2 requests refused"
    )
    _, refused, aborted, _ = finding.evidence
    assert refused.text == (
        "Produce of client app-1 with epoch 1 was refused (INVALID_PRODUCER_EPOCH):"
        " client app-2 has epoch 2"
    )
    assert aborted.text == (
        "tx (client app-2, producer 4236) began a transaction; another producer aborted"
        " it after 0 ms"
    )


def test_a_zombie_without_an_open_transaction() -> None:
    """Its earlier transactions had the group's partitions, and were quick."""
    stream, producer = scene()
    producer.begins(0)
    producer.ends("client_committed")
    producer.initializes("app-2")
    producer.is_fenced(epoch=1, client_id="app-1")
    assert findings(stream).keys() == {"producer-fenced"}
    elsewhere = Producer(stream, "elsewhere")
    elsewhere.initializes()
    elsewhere.is_fenced(epoch=0)
    fenced = [f for f in history(stream.events, "g").findings if "fenced" in f.code]
    assert len(fenced) == 1


def test_a_transaction_that_took_long() -> None:
    """It is over, and a consumer waited for it."""
    stream, producer = scene()
    producer.begins(0)
    stream.wait(9.9)
    producer.ends("client_committed")
    assert findings(stream) == {}
    producer.begins(0)
    stream.wait(30)
    producer.ends("client_aborted", held_back=3)
    found = findings(stream)
    assert found["long-transaction"].title == (
        "1 transaction held the last stable offset for 10.0 s or more, 30.0 s at the"
        " most"
    )
    assert (
        found["long-transaction"]
        .evidence[0]
        .text.endswith("it aborted after 30.0 s, which released 3 records")
    )


def test_open_transactions_end_with_the_run() -> None:
    """The coordinators of the next run load those that go on."""
    stream, producer = scene()
    other = Producer(stream, "other")
    other.initializes()
    producer.begins(0)
    other.begins(1)
    stream.wait(5)
    stream.run = "run-2"
    producer.is_loaded()
    stream.wait(5)
    (finding,) = history(stream.events, "g", stream.now).findings
    assert "transaction of tx has held the last stable offset of t-0 for 10.0 s" in (
        finding.title
    )


def test_open_transactions_behind_a_gap() -> None:
    """Their ends may be among the lost events."""
    stream, producer = scene()
    producer.begins(0)
    stream.wait(5)
    stream.say("events_lost", group=None, first=1, last=2)
    assert history(stream.events, "g", stream.now).findings == ()


def test_all_groups_at_once() -> None:
    """`fold_all` finds the same for each group."""
    stream, producer = scene()
    producer.begins(0, groups=["h"])
    stream.group = "h"
    stream.comes("ben")
    stream.wait(5)
    facts = fold_all(stream.events, stream.now)
    for group in ("g", "h"):
        (found,) = facts[group].transactions
        assert (found.transactional_id, found.started_ns) == (
            "tx",
            stream.now - 5 * SECOND,
        )
