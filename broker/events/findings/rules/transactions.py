"""Findings about transactions: they hold back records, or did not end well."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kohort.broker.events.account.values import Partition
from kohort.broker.events.findings.facts import Facts, LooseOffsets
from kohort.broker.events.findings.finding import Evidence, Finding
from kohort.broker.events.findings.interventions import moved_ns, moved_past
from kohort.broker.events.findings.names import Names, cut
from kohort.broker.events.findings.transaction_history import (
    LONG_NS,
    OPEN_NS,
    Fenced,
    ObservedTransaction,
)
from kohort.broker.events.findings.words import duration, many

MS = 1_000_000


def open_transactions(facts: Facts, _: Names) -> Iterator[Finding]:
    """Open transactions that hold the last stable offset of the group's partitions."""
    found = [each for each in _open(facts) if _held(each, facts)]
    if not found:
        return
    now = facts.until_ns or 0
    oldest = found[0]
    parts = sorted(frozenset[Partition]().union(*(_held(t, facts) for t in found)))
    title = f"An open transaction of {cut(oldest.transactional_id)} has"
    if len(found) > 1:
        title = f"{len(found)} open transactions have"
    title += (
        f" held the last stable offset of {_listed(parts)} for"
        f" {'up to ' if len(found) > 1 else ''}{duration(now - oldest.started_ns)}"
    )
    waiting = sum(facts.waiting.get(each, 0) for each in parts)
    if waiting:
        verb = "waits" if waiting == 1 else "wait"
        title += f"; {many(waiting, 'record')} {verb} for read_committed consumers"
    yield Finding(
        "open-transaction",
        title,
        "Consumers with isolation.level=read_committed get no record behind the first "
        "one of an open transaction, even of other producers. Look for the producer by "
        "its transactional.id and client.id: it may be paused, or have stopped without "
        "a commit or an abort. The coordinator aborts the transaction after the "
        "producer's transaction.timeout.ms; InitProducerId of a producer with the same "
        "transactional.id aborts it at once.",
        tuple(_opened(each, facts, now) for each in found),
    )


def pending_offsets(facts: Facts, _: Names) -> Iterator[Finding]:
    """Offsets of the group in an open transaction: new owners wait for its end."""
    found = [each for each in _open(facts) if facts.group in each.groups]
    if not found:
        return
    now = facts.until_ns or 0
    oldest = found[0]
    others = f" and {len(found) - 1} more" if len(found) > 1 else ""
    yield Finding(
        "pending-offsets",
        f"Offsets of this group have been in an open transaction of "
        f"{cut(oldest.transactional_id)} for {duration(now - oldest.started_ns)}"
        f"{others}",
        "Until the transaction ends, OffsetFetch is answered UNSTABLE_OFFSET_COMMIT "
        "for these partitions (KIP-447). A consumer that gets one of them in a "
        "rebalance waits, and reads nothing.",
        tuple(_opened(each, facts, now) for each in found),
    )


def _open(facts: Facts) -> list[ObservedTransaction]:
    """Transactions that are open for a while, the oldest first.

    By the broker's clock, also where a test moved it: they hold back records now.
    """
    now = facts.until_ns or 0
    found = [
        each
        for each in facts.transactions
        if each.ended_ns is None and now - each.started_ns >= OPEN_NS
    ]
    return sorted(found, key=lambda each: each.started_ns)


def _open_ns(each: ObservedTransaction, until_ns: int, facts: Facts) -> int:
    """How long it was open by then, without time that a test skipped."""
    return until_ns - each.started_ns - moved_ns(facts, each.started_ns, until_ns)


def _held(transaction: ObservedTransaction, facts: Facts) -> frozenset[Partition]:
    return transaction.held() & facts.partitions


def _opened(transaction: ObservedTransaction, facts: Facts, now: int) -> Evidence:
    text = f"{_producer(transaction)} began a transaction"
    held = _held(transaction, facts)
    if held:
        text += f" with {_listed(sorted(held))}"
    if transaction.decided_ns is None:
        left = transaction.started_ns + transaction.timeout_ms * MS - now
        text += f"; its timeout of {duration(transaction.timeout_ms * MS)} "
        text += f"ends in {duration(left)}" if left > 0 else "is over"
    else:
        way = "committed" if transaction.state == "PrepareCommit" else "aborted"
        since = duration(now - transaction.decided_ns)
        text += f"; it was {way} {since} ago, and some partitions have no marker yet"
    return Evidence(transaction.started_ns, text, transaction.sequence)


def long_transactions(facts: Facts, _: Names) -> Iterator[Finding]:
    """Transactions that were open for long, and ended as their producers wanted."""
    found = [
        each
        for each in facts.transactions
        if each.ended_ns is not None
        and each.ended_by not in {"timeout", "fenced", "operator"}
        and _open_ns(each, each.ended_ns, facts) >= LONG_NS
        and not facts.partitions.isdisjoint(each.partitions)
    ]
    if not found:
        return
    longest = max((each.ended_ns or 0) - each.started_ns for each in found)
    yield Finding(
        "long-transaction",
        f"{many(len(found), 'transaction')} held the last stable offset for "
        f"{duration(LONG_NS)} or more, {duration(longest)} at the most",
        "For that time, read_committed consumers got no record behind the first one "
        "of the transaction. Let the producer commit more often, with fewer records.",
        tuple(_ended(each, _ends(each)) for each in found),
    )


def loose_offsets(facts: Facts, _: Names) -> Iterator[Finding]:
    """Offsets of transactions that the coordinator cannot check: KIP-447 is off."""
    by_client: dict[str, list[LooseOffsets]] = {}
    for each in facts.loose_offsets:
        by_client.setdefault(each.client_id, []).append(each)
    if by_client:
        yield Finding(
            "offsets-without-member",
            f"Transactions committed offsets of this group without a member id and a "
            f"generation: {many(len(facts.loose_offsets), 'time')}",
            "The coordinator cannot refuse such offsets when their sender has lost the "
            "partition, so a record can be processed in two committed transactions: "
            "exactly-once is not guaranteed (KIP-447). Send the consumer's group "
            "metadata, not only the group's id: sendOffsetsToTransaction(offsets, "
            "consumer.groupMetadata()). If the client has no such call (aiokafka), use "
            "one transactional.id per input partition, or make the writes idempotent.",
            tuple(
                Evidence(
                    rows[0].at_ns,
                    f"client {cut(client_id) or '(unknown)'}, producer "
                    f"{rows[0].producer_id}: {many(len(rows), 'transaction')}"
                    f"{' from here on' if len(rows) > 1 else ''}",
                    rows[0].sequence,
                    rows[0].generation,
                )
                for client_id, rows in by_client.items()
            ),
        )


def timed_out(facts: Facts, _: Names) -> Iterator[Finding]:
    """Transactions that the coordinator aborted because of their timeout."""
    found = [
        each
        for each in facts.transactions
        if each.ended_by == "timeout" and not moved_past(each, facts)
    ]
    if not found:
        return
    refused = [each for each in facts.fenced if each.by == "timeout"]
    evidence = [_ended(each, "the coordinator aborted it") for each in found]
    evidence += [_refused(each, " after the timeout") for each in refused]
    yield Finding(
        "transaction-timeout",
        f"Transactions were aborted by their timeout: {many(len(found), 'time')}",
        "The producer ended neither by commit nor by abort within its "
        "transaction.timeout.ms, so its records and offsets are dropped, and its next "
        "request is refused: it has to abort, or to be closed. If it was not stopped, "
        "commit more often, or raise transaction.timeout.ms (at most the broker's "
        "transaction.max.timeout.ms).",
        _in_order(evidence),
    )


def fenced(facts: Facts, _: Names) -> Iterator[Finding]:
    """Producers that lost their transactional id to another one."""
    refused: dict[str, list[Fenced]] = {}
    for each in facts.fenced:
        if each.by in {"initialized", "fenced"}:
            refused.setdefault(each.transactional_id, []).append(each)
    for transactional_id, rows in refused.items():
        name = cut(transactional_id)
        evidence = [_refused(each, _taken(each)) for each in rows]
        evidence += [
            _ended(each, "another producer aborted it")
            for each in facts.transactions
            if each.transactional_id == transactional_id and each.ended_by == "fenced"
        ]
        epochs = {each.current_epoch for each in rows}
        again = f", {len(epochs)} times in turns" if len(epochs) > 1 else ""
        yield Finding(
            "producer-fenced",
            f"A producer lost the transactional.id {name} to another one{again}: "
            f"{many(len(rows), 'request')} refused",
            "The producer that initializes last has the transactional.id; requests of "
            "the earlier one are refused, which is fatal to it. After a restart that "
            "is right: the old process is a zombie. Otherwise two producers share the "
            "id: give each its own, for example with the name of its pod.",
            _in_order(evidence),
            subject=name,
        )


def _taken(each: Fenced) -> str:
    who = f"client {cut(each.successor)}" if each.successor else "another producer"
    return f": {who} has epoch {each.current_epoch}"


def _refused(each: Fenced, why: str) -> Evidence:
    who = f"client {cut(each.client_id)}" if each.client_id else "the producer"
    text = f"{each.api} of {who} with epoch {each.producer_epoch} was refused"
    return Evidence(each.at_ns, f"{text} ({each.error}){why}", each.sequence)


def _ends(each: ObservedTransaction) -> str:
    return "it committed" if each.state == "CompleteCommit" else "it aborted"


def _ended(each: ObservedTransaction, how: str) -> Evidence:
    open_ns = (each.decided_ns or each.started_ns) - each.started_ns
    text = f"{_producer(each)} began a transaction; {how} after {duration(open_ns)}"
    released = sum(each.marked.values())
    if released:
        text += f", which released {many(released, 'record')}"
    return Evidence(each.started_ns, text, each.sequence)


def _producer(each: ObservedTransaction) -> str:
    client = f"client {cut(each.client_id)}, " if each.client_id else ""
    return f"{cut(each.transactional_id)} ({client}producer {each.producer_id})"


def _listed(parts: Sequence[Partition], most: int = 3) -> str:
    """As in "orders-3", or "orders-0, orders-1, orders-2 and 5 others"."""
    names = [f"{cut(topic)}-{index}" for topic, index in parts]
    if len(names) > most + 1:
        names[most:] = [f"{len(names) - most} others"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _in_order(evidence: Collection[Evidence]) -> tuple[Evidence, ...]:
    return tuple(sorted(evidence, key=lambda each: (each.at_ns, each.sequence or 0)))
