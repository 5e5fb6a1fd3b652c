"""The account of a group in numbers of records, and as an event."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, Final

from kohort.broker.events.account.group import GroupAccounts
from kohort.broker.events.account.values import Partition
from kohort.broker.events.delivery import passages
from kohort.broker.events.delivery.partition import PartitionDelivery
from kohort.broker.events.delivery.values import (
    Again,
    Delivery,
    Open,
    Skipped,
    WentBack,
)
from kohort.broker.events.sources import Count

AT_ONCE: Final = 2
"""Partitions counted in one step: some 50 us, about as long as an event takes."""


class Counted:
    """The account of a group, with the numbers of records.

    Args:
        group_id: the group.
        partitions: its partitions.
        went_back: commits below the committed offset.
        accounts: its members and readers; None: it has none.
        count: counts records between offsets.
    """

    def __init__(
        self,
        group_id: str,
        partitions: Mapping[Partition, PartitionDelivery],
        went_back: Iterable[WentBack],
        accounts: GroupAccounts | None,
        count: Count,
    ) -> None:
        self._group_id = group_id
        self._partitions = partitions
        self._went_back = went_back
        self._accounts = accounts
        self._count = count

    def _records(self, key: Partition, first: int, end: int) -> int:
        state = self._partitions[key]
        return self._count(*key, first, end, state.is_committed is True)

    def _sorted(self) -> list[tuple[Partition, PartitionDelivery]]:
        return sorted(self._partitions.items())

    def delivery(self) -> Generator[None, None, Delivery]:
        """The account as of now; yields after some partitions."""
        records = committed = uncommitted = unknown = sent = 0
        complete: dict[str, int] = {}
        again: list[Again] = []
        skipped: list[Skipped] = []
        for number, (key, state) in enumerate(self._sorted(), 1):
            for first, end, seen in state.seen.within(0):
                found = self._records(key, first, end)
                if seen.reader:
                    records += found
                    committed += found if seen.is_handled else 0
                uncommitted += 0 if seen.is_handled else found
            for first, end, _ in state.unknown.within(0):
                unknown += self._records(key, first, end)
            sent += state.sent
            if state.seen.complete_from:
                complete["{}-{}".format(*key)] = state.seen.complete_from
            again += self._again(key, state)
            skipped += self._skipped(key, state)
            if number % AT_ONCE == 0:
                yield
        return Delivery(
            group=self._group_id,
            records=records,
            committed=committed,
            uncommitted=uncommitted,
            sent=sent,
            unknown=unknown,
            again=tuple(again),
            skipped=tuple(skipped),
            went_back=tuple(self._went_back),
            open=tuple(self.open()),
            complete_from=complete,
        )

    def news(self) -> Generator[None, None, dict[str, Any]]:
        """The fields of a ``delivery_account``: what no event has told yet.

        Yields after some partitions; no event may be handled in between.
        """
        again: list[dict[str, Any]] = []
        skips: list[dict[str, Any]] = []
        received = 0
        for number, (key, state) in enumerate(self._sorted(), 1):
            received += self._untold_records(key, state)
            again += self._untold_repeats(key, state)
            skips += self._untold_gaps(key, state)
            if number % AT_ONCE == 0:
                yield
        whole = yield from self.delivery()
        certain = sum(row["records"] for row in again if row["is_certain"])
        return {
            "received": received,
            "again_certain": certain,
            "again_possible": sum(row["records"] for row in again) - certain,
            "skipped": sum(row["records"] for row in skips),
            "uncommitted": whole.uncommitted,
            "again": again,
            "skips": skips,
            "words": whole.words,
        }

    def _untold_records(self, key: Partition, state: PartitionDelivery) -> int:
        """Those received for the first time, even if they were given back since."""
        count = 0
        for first, end, seen in state.seen.within(0):
            if seen.reader:
                gaps = [*state.told.gaps(first, end)]
                count += sum(self._records(key, a, b) for a, b in gaps)
                state.told.set(first, end, True)
        return count

    def _untold_repeats(
        self, key: Partition, state: PartitionDelivery
    ) -> Iterator[dict[str, Any]]:
        for each in state.repeats:
            first = each.first if each.told is None else each.told
            if first < each.end:
                each.told = each.end
                yield {
                    **self._range(key, first, each.end),
                    "is_certain": each.seen.is_handled,
                    "previous_reader": each.seen.reader or None,
                    "reader": each.reader,
                    "reason_again": each.reason,
                }

    def _untold_gaps(
        self, key: Partition, state: PartitionDelivery
    ) -> Iterator[dict[str, Any]]:
        for gap in state.gaps:
            if not gap.is_told:
                gap.is_told = True
                made = self._range(key, gap.first, gap.end)
                if made["records"]:
                    yield {**made, "reader": gap.reader, "reason_skipped": gap.reason}

    def _range(self, key: Partition, first: int, end: int) -> dict[str, Any]:
        return {
            "topic": key[0],
            "partition": key[1],
            "first": first,
            "end": end,
            "records": self._records(key, first, end),
        }

    def _again(self, key: Partition, state: PartitionDelivery) -> Iterator[Again]:
        for row in state.repeats:
            yield self._row(
                key,
                row.first,
                row.end,
                row.seen,
                row.reason,
                row.reader,
                row.wall_ns,
                is_due=False,
            )
        due = state.due()
        if due and self._is_due(state):
            passage = state.passage
            reader = ""
            if passage is not None and passage.release is None:
                reader = passage.member_id
            why = state.reason_of_due
            for first, end, seen in due:
                yield self._row(key, first, end, seen, why, reader, 0, is_due=True)

    def _is_due(self, state: PartitionDelivery) -> bool:
        """Returns whether a reader is to come: not of a group that has ended.

        Nor of partitions that were released because the other members had left.
        """
        passage = state.passage
        if passage is None or (
            passage.release is not None
            and passage.release.how in passages.IN_REBALANCE
            and not passage.release.after_departure
        ):
            return True
        return self._accounts is not None and bool(self._accounts.membership.present)

    def _row(
        self, key: Partition, first: int, end: int, seen: passages.Seen, reason: str,
        reader: str, wall_ns: int, *, is_due: bool,
    ) -> Again:  # fmt: skip
        return Again(
            topic=key[0],
            partition=key[1],
            first=first,
            end=end,
            records=self._records(key, first, end),
            is_certain=seen.is_handled,
            is_due=is_due,
            reason=reason,
            first_reader=seen.reader,
            reader=reader,
            time_ns=wall_ns,
        )

    def _skipped(self, key: Partition, state: PartitionDelivery) -> Iterator[Skipped]:
        for gap in state.gaps:
            records = self._records(key, gap.first, gap.end)
            if records:
                yield Skipped(
                    topic=key[0],
                    partition=key[1],
                    first=gap.first,
                    end=gap.end,
                    records=records,
                    reason=gap.reason,
                    reader=gap.reader,
                    time_ns=gap.wall_ns,
                )

    def open(self) -> Iterator[Open]:
        """The partitions whose new owner has not fetched yet."""
        accounts = self._accounts
        if accounts is None:
            return
        for key, state in self._sorted():
            passage = state.passage
            if passage is None or passage.release is None:
                continue
            owner = accounts.ownership.last.get(key)
            if owner is None or owner not in accounts.membership:
                continue
            due = sum(self._records(key, a, b) for a, b, _ in state.due())
            yield Open(topic=key[0], partition=key[1], owner=owner, records=due)
