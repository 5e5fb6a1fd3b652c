"""Findings about records: handled twice, skipped; and offsets that went back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kohort.broker.events.delivery_words import SKIP_REASONS
from kohort.broker.events.findings.facts import Facts, Repeated, Rewound, Skip
from kohort.broker.events.findings.finding import Cost, Evidence, Finding, Setting
from kohort.broker.events.findings.names import Names
from kohort.broker.events.findings.words import many

_RESET: Final = "auto.offset.reset"
_EARLIEST: Final = Setting(_RESET, "earliest")


class _OfSkip(NamedTuple):
    code: str
    advice: str
    setting: Setting | None = None


_OF_SKIPS: Final[Mapping[str, _OfSkip]] = {
    "reset": _OfSkip(
        "offset-reset",
        "Without a committed offset, auto.offset.reset=latest begins at the end of the "
        "log. Commit before the consumer stops, or set auto.offset.reset=earliest, or "
        "none, which fails instead of skipping.",
        _EARLIEST,
    ),
    "out_of_range": _OfSkip(
        "offset-reset",
        "The group's offset was no longer in the log, and auto.offset.reset took "
        "effect. Keep records longer than consumers may be away (retention.ms), and "
        "set auto.offset.reset=earliest, or none, which fails instead of skipping.",
        _EARLIEST,
    ),
    "deleted": _OfSkip(
        "records-deleted-unread",
        "Retention or DeleteRecords removed records that the group had not read. Keep "
        "records longer than the group may lag (retention.ms, retention.bytes).",
    ),
    "commit_ahead": _OfSkip(
        "committed-ahead",
        "An offset above the records that were sent was committed, so the next reader "
        "began behind them. Commit the offset after the last record that was "
        "processed, and no other.",
    ),
    "found_late": _OfSkip(
        "partition-found-late",
        "A new partition had records before the group read it, and "
        "auto.offset.reset=latest begins at its end. Set auto.offset.reset=earliest.",
        _EARLIEST,
    ),
}
"""By the reason of a skip: code, advice, and the setting. A seek is on purpose."""


def went_back(facts: Facts, names: Names) -> Iterator[Finding]:
    """Commits below the committed offset; not those of an admin."""
    rows = [row for row in facts.rewound if row.cause != "admin"]
    if rows:
        records = sum(row.previous - row.offset for row in rows)
        yield Finding(
            "offset-went-back",
            f"The committed offset went back {many(len(rows), 'time')}",
            "The records in between come again when the partition gets another reader. "
            "A client commits a position that it had stored before: commit only "
            "offsets above the last one, drop stored offsets when partitions are "
            "revoked, and do not commit from two places.",
            tuple(_back(row, names) for row in rows),
            cost=Cost(records=records),
        )


def _back(row: Rewound, names: Names) -> Evidence:
    who = names.of(row.member_id) if row.member_id else row.client_id or "a client"
    where = " in a transaction" if row.cause == "transaction" else ""
    return Evidence(
        row.at_ns,
        f"{who} committed {row.offset} of {row.topic}-{row.partition}{where}, after "
        f"{row.previous}",
        row.sequence,
        row.generation,
        (who,),
    )


def skipped(facts: Facts, names: Names) -> Iterator[Finding]:
    """Records that no member was sent."""
    by_code: dict[str, list[Skip]] = {}
    for row in facts.skips:
        if row.reason in _OF_SKIPS:
            by_code.setdefault(_OF_SKIPS[row.reason].code, []).append(row)
    for code, rows in by_code.items():
        told = _OF_SKIPS[rows[0].reason]
        count = sum(row.records for row in rows)
        yield Finding(
            code,
            f"{many(count, 'record')} were never sent to the group: "
            f"{SKIP_REASONS[rows[0].reason]}",
            told.advice,
            tuple(
                Evidence(
                    row.at_ns,
                    f"{names.of(row.reader)} began at offset {row.end} of {row.topic}-"
                    f"{row.partition}, behind {many(row.records, 'record')}",
                    row.sequence,
                    row.generation,
                    (names.of(row.reader),),
                )
                for row in rows
            ),
            cost=Cost(records=count),
            setting=told.setting,
        )


def repeated(facts: Facts, names: Names) -> Iterator[Finding]:
    """Records sent again because of a reset, or of a revocation without a commit."""
    reset = [row for row in facts.repeated if row.reason == "out_of_range"]
    if reset:
        count = sum(row.records for row in reset)
        yield Finding(
            "offset-reset",
            f"{many(count, 'record')} were sent again: the offset was out of range, "
            "and auto.offset.reset took effect",
            _OF_SKIPS["out_of_range"].advice,
            tuple(_again(row, names) for row in reset),
            subject="again",
            cost=Cost(records=count),
        )
    rows = [row for row in facts.repeated if row.reason == "rebalance"]
    if rows:
        count = sum(row.records for row in rows)
        certain = all(row.is_certain for row in rows)
        yield Finding(
            "not-committed-on-revocation",
            f"{many(count, 'record')} were sent again after a rebalance"
            + ("" if certain else ", and perhaps handled twice"),
            "The member that lost the partition had received them and did not commit "
            "before it gave the partition up. Commit processed records in the callback "
            "for revoked partitions (onPartitionsRevoked, on_revoke).",
            tuple(_again(row, names) for row in rows),
            is_sure=certain,
            cost=Cost(records=count),
        )


def _again(row: Repeated, names: Names) -> Evidence:
    first = f", after {names.of(row.previous_reader)}" if row.previous_reader else ""
    return Evidence(
        row.at_ns,
        f"{names.of(row.reader)} was sent {many(row.records, 'record')} of "
        f"{row.topic}-{row.partition} from offset {row.first} on{first}",
        row.sequence,
        row.generation,
        (names.of(row.reader),),
    )
