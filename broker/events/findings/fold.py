"""Folds the events of groups into facts: accounts, refusals, replacements, gaps.

`kohort.broker.events.account` computes the accounts of rebalances. An account in the
stream (``rebalance_account``) has precedence: it may know more than these events.
Findings in the stream (``finding``) are kept as well, for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from kohort.broker.events.account import Account, Accounts, UnreadAccount
from kohort.broker.events.account.group import GroupAccounts
from kohort.broker.events.account.membership import Member, client_id_of, stranger
from kohort.broker.events.account.values import Event, Partition
from kohort.broker.events.findings.facts import (
    Advance,
    Command,
    Conversion,
    Facts,
    ForeignCommit,
    LooseOffsets,
    Refusal,
    Repeated,
    Replacement,
    Rewound,
    Skip,
    Strike,
    TooLarge,
)
from kohort.broker.events.findings.finding import Finding
from kohort.broker.events.findings.interventions import with_tests
from kohort.broker.events.findings.transaction_history import TransactionHistory

CLOCK: Final = "clock_advanced"
"""The kind of no group that every group's facts need."""

Waiting = Mapping[Partition, int]
"""Records behind the last stable offset, by partition."""

KINDS: Final = frozenset(
    {"append_failed", "commit_refused", "fault_struck", "member_refused"}
    | {"pending_member_expired", "member_replaced", "window_opened"}
    | {"rebalance_account", "unread_account", "finding", "offsets_committed"}
    | {"delivery_account", "offsets_went_back"}
    | {"offsets_unchecked", "member_fenced", "group_converted"}
)
"""Kinds of group events that matter, besides those of accounts."""
MOST: Final = 500
"""Rebalances, refusals, strikes and so on of a group that remain after `trim`: the
slowest rule then takes 20 ms."""
MOST_ROWS: Final = 200_000
"""Rows of the accounts of all groups that remain after `trim`: some 50 MB."""


def fold(
    events: Iterable[Event],
    group: str,
    until_ns: int | None = None,
    waiting: Waiting = MappingProxyType({}),
) -> Facts:
    """The facts of a group.

    Args:
        events: in the order in which they were seen; events of other groups are
            ignored, events without a group count if they are about all groups or about
            transactions.
        group: the group's id.
        until_ns: now, by the broker's clock, if no event is missing up to now: a
            rebalance in progress lasts until then. None: the last event is the end.
        waiting: as known now: see `Facts`.

    Returns:
        The facts; without rebalances if there is no event of the group.
    """
    folding = Folding()
    for event in events:
        if event.get("group") in {None, group}:
            folding.take(event)
    folding.close()
    return folding.facts(group, until_ns, waiting)


def fold_all(
    events: Iterable[Event],
    until_ns: int | None = None,
    waiting: Waiting = MappingProxyType({}),
) -> dict[str, Facts]:
    """The facts of all groups that have an event, by group id."""
    folding = Folding()
    for event in events:
        folding.take(event)
    folding.close()
    return {name: folding.facts(name, until_ns, waiting) for name in folding.groups}


class Folding:
    """The facts of all groups of a stream: pass each event to `take`, in order.

    Attributes:
        groups: those with at least one event, by id.
        transactions: all transactions.
        accounts: the accounts of rebalances.
    """

    def __init__(self) -> None:
        self.groups: dict[str, _Group] = {}
        self.transactions = TransactionHistory()
        self.accounts = Accounts()
        self._gaps: list[tuple[int, int]] = []
        self._advances: list[Advance] = []
        self._rows = 0

    def take(self, event: Event) -> list[Account | UnreadAccount]:
        """Handles the next event.

        Returns:
            The accounts that are now settled.
        """
        self.transactions.take(event)
        settled = self._settled(self.accounts.take_all(event))
        group = event.get("group")
        if group is not None:
            self._of(group).take(event)
        elif event["kind"] == "events_lost":
            self._gaps.append((int(event["first"]), int(event["last"])))
        elif event["kind"] == CLOCK:
            self._advances.append(_advance(event))
        return settled

    def close(self) -> list[Account | UnreadAccount]:
        """Ends the stream of events.

        Returns:
            The accounts of rebalances that a node's stop has ended, and of time without
            a reader.
        """
        return self._settled(self.accounts.close_all())

    def _settled(
        self, accounts: Iterable[Account | UnreadAccount]
    ) -> list[Account | UnreadAccount]:
        settled = [*accounts]
        for account in settled:
            self._rows += self._of(account.group).add(account)
        return settled

    def _of(self, group: str) -> _Group:
        found = self.groups.get(group)
        if found is None:
            found = self.groups[group] = _Group(self.accounts.of(group))
        return found

    def facts(
        self,
        group: str,
        until_ns: int | None = None,
        waiting: Waiting = MappingProxyType({}),
    ) -> Facts:
        """The facts of a group so far; arguments as for `fold`."""
        facts = self._of(group).facts(self.transactions, until_ns, waiting)
        gaps, advances = [*self._gaps], [*self._advances]
        return with_tests(replace(facts, gaps=gaps, advances=advances))

    def troubled(self) -> Iterator[str | None]:
        """Yields groups that a transaction concerns that went wrong, or is open long.

        None for each of the others, so that the caller can pause.
        """
        if self.transactions.is_news():
            for name, group in [*self.groups.items()]:
                found = self.transactions.concerning(name, group.concerned)
                yield name if any(found) else None

    def trim(self, group: str) -> None:
        """Bounds the memory of a group, and of all, in an endless stream."""
        found = self.groups.get(group)
        if found is None:
            return
        self.accounts.trim(group)
        self.transactions.trim()
        del self._gaps[:-MOST], self._advances[:-MOST]
        self._rows -= found.trim()
        while self._rows > MOST_ROWS:
            largest = max(self.groups.values(), key=lambda each: each.rows)
            if len(largest.computed) < 2:
                return
            self._rows -= largest.halve()

    def forget(self, group: str) -> None:
        """Forgets a deleted group."""
        self.accounts.forget(group)
        gone = self.groups.pop(group, None)
        self._rows -= 0 if gone is None else gone.rows


def _is_nobodys(event: Event) -> bool:
    """True if the event is ignored without a member_id."""
    return event["kind"] in {"pending_member_expired", "member_replaced"}


class _Group:
    """One group, as far as its events have been read.

    Attributes:
        accounts: see `GroupAccounts`.
        count: the number of its events.
        generation: of the last event.
        node: the node of the last event.
        rows: rows of its accounts.
        computed: accounts that were computed from these events.
    """

    def __init__(self, accounts: GroupAccounts) -> None:
        self.accounts = accounts
        self.count = 0
        self.generation: int | None = None
        self.node = 0
        self.rows = 0
        self.computed: list[Account] = []
        self._since_ns: int | None = None
        self.carried: dict[str, Account] = {}
        self.quiet: list[UnreadAccount] = []
        self.carried_quiet: dict[str, UnreadAccount] = {}
        self.found: dict[str, Finding | None] = {}
        self.delays: list[int] = []
        self.refusals: list[Refusal] = []
        self.foreign_commits: list[ForeignCommit] = []
        self.loose_offsets: list[LooseOffsets] = []
        self.too_large: list[TooLarge] = []
        self.replacements: list[Replacement] = []
        self.conversions: list[Conversion] = []
        self.rewound: list[Rewound] = []
        self.repeated: list[Repeated] = []
        self.skips: list[Skip] = []
        self.strikes: list[Strike] = []
        self.commands: list[Command] = []
        self.unused: list[tuple[int, int, str]] = []
        self.committed: set[Partition] = set()
        self.on_kind: Mapping[str, Callable[[Event], None]] = {
            "pending_member_expired": self._pending_expired,
            "member_refused": self._refused,
            "member_fenced": self._fenced,
            "member_replaced": self._replaced,
            "group_converted": self._converted,
            "window_opened": self._window_opened,
            "rebalance_account": self._carried,
            "unread_account": self._carried_quiet,
            "finding": self._found,
            "offsets_committed": self._committed,
            "offsets_unchecked": self._unchecked,
            "commit_refused": self._commit_refused,
            "fault_struck": self._struck,
            "commanded": self._commanded,
            "append_failed": self._append_failed,
            "offsets_went_back": self._went_back,
            "delivery_account": self._delivered,
        }

    def take(self, event: Event) -> None:
        """Takes in one event, after the accounts have."""
        self.count += 1
        self.node = event["node"]
        generation = event.get("generation")
        self.generation = self.generation if generation is None else generation
        handle = self.on_kind.get(event["kind"])
        if handle is not None and (event.get("member_id") or not _is_nobodys(event)):
            handle(event)

    @property
    def size(self) -> int:
        """The number of facts that rules look at."""
        lives = len(self.accounts.membership.lives)
        return self.rows + lives + len(self.refusals) + len(self.strikes)

    @property
    def concerned(self) -> set[Partition]:
        """The partitions that its members owned, or that it has committed."""
        return self.committed | self.accounts.ownership.last.keys()

    def add(self, account: Account | UnreadAccount) -> int:
        """Adds an account; returns its rows."""
        if isinstance(account, UnreadAccount):
            self.quiet.append(account)
            return 0
        self.computed.append(account)
        rows = weigh(account)
        self.rows += rows
        return rows

    def trim(self) -> int:
        """Drops the oldest of each kind if there are many; returns their rows."""
        rows: list[list[Any]] = [self.delays, self.refusals, self.too_large]
        rows += [
            self.foreign_commits,
            self.loose_offsets,
            self.replacements,
            self.conversions,
            self.strikes,
            self.unused,
        ]
        rows += [self.rewound, self.repeated, self.skips, self.quiet]
        for each in (*rows, self.commands):
            if len(each) > 2 * MOST:
                del each[:-MOST]
        return self._drop(-MOST) if len(self.computed) > 2 * MOST else 0

    def halve(self) -> int:
        """Drops the older half of its accounts; returns their rows."""
        return self._drop(len(self.computed) // 2)

    def _drop(self, first: int) -> int:
        """Drops the accounts before an index; returns their rows."""
        rows = sum(map(weigh, self.computed[:first]))
        self.rows -= rows
        del self.computed[:first]
        self._since_ns = self.computed[0].started_ns
        return rows

    def facts(
        self,
        all_transactions: TransactionHistory,
        until_ns: int | None,
        waiting: Waiting,
    ) -> Facts:
        """The facts so far; later events do not change them."""
        accounts = self.accounts
        now = accounts.now if until_ns is None else max(accounts.now, until_ns)
        under_way = accounts.under_way(now)
        membership, ownership = accounts.membership, accounts.ownership
        owned, present = ownership.owned, membership.present
        rebalances = self._rebalances(under_way)
        concerned = self.concerned
        group = accounts.group_id
        transactions, fenced = all_transactions.concerning(group, concerned)
        if until_ns is None and transactions:
            now = max(now, all_transactions.now_ns)
        is_owned_known = ownership.is_known and all(m in owned for m in present)
        since_ns = accounts.since_ns if self._since_ns is None else self._since_ns
        return Facts(
            group=group,
            since_ns=since_ns,
            until_ns=None if since_ns is None else now,
            since_generation=accounts.since_generation,
            rebalances=rebalances,
            quiet=self._quiet(),
            unread_since=() if under_way else accounts.unread_since(now),
            members={**membership.members},
            lives=[*membership.lives],
            returns={row.previous_id: row for r in rebalances for row in r.returns},
            refusals=[*self.refusals],
            foreign_commits=[*self.foreign_commits],
            loose_offsets=[*self.loose_offsets],
            too_large=[*self.too_large],
            replacements=[*self.replacements],
            conversions=[*self.conversions],
            rewound=[*self.rewound],
            repeated=[*self.repeated],
            skips=[*self.skips],
            strikes=[*self.strikes],
            advances=(),
            commands=[*self.commands],
            transactions=transactions,
            fenced=fenced,
            partitions=frozenset(concerned),
            waiting=waiting,
            unused_ids=[*self.unused],
            initial_delays_ms=[*self.delays],
            owned={m: len(owned[m]) for m in present} if is_owned_known else None,
            owned_topics=len({t for each in owned.values() for t, _ in each}),
            gaps=(),
            set_back_ns=accounts.set_back_ns,
            events=self.count,
            found={**self.found},
        )

    def _rebalances(self, under_way: Account | None) -> list[Account]:
        """The accounts in order: those that the stream carries, and the others."""
        computed = [*self.computed, *([under_way] if under_way else [])]
        if not self.carried:
            return computed
        carried = [*self.carried.values()]
        others = [each for each in computed if not self._is_carried(each)]
        return sorted([*carried, *others], key=lambda each: each.started_ns)

    def _quiet(self) -> list[UnreadAccount]:
        """Accounts outside of rebalances: those of the stream, and later ones."""
        carried = [*self.carried_quiet.values()]
        settled = [each.settled_ns for each in carried]
        settled += (each.settled_ns for each in self.carried.values())
        until_ns = max(settled, default=0)
        return carried + [each for each in self.quiet if each.settled_ns > until_ns]

    def _is_carried(self, computed: Account) -> bool:
        if computed.key in self.carried:
            return True
        # An account with a missing start has another key.
        return not computed.is_whole and any(
            each.run == computed.run
            and each.generation in {computed.generation, None}
            and each.started_ns <= computed.ended_ns
            and computed.started_ns <= each.ended_ns
            for each in self.carried.values()
        )

    # -- one method for each kind that matters

    def _pending_expired(self, event: Event) -> None:
        row = self.accounts.now, event["sequence"], event["member_id"]
        self.unused.append(row)

    def _refused(self, event: Event) -> None:
        self._note_refusal(event, str(event.get("cause")))

    def _fenced(self, event: Event) -> None:
        self._note_refusal(event, "fenced")

    def _commit_refused(self, event: Event) -> None:
        if event.get("error") == "UNKNOWN_SERVER_ERROR":
            self._note_too_large(event, "offsets")
        else:
            self._note_refusal(event, "commit")

    def _committed(self, event: Event) -> None:
        rows = event.get("offsets") or ()
        self.committed.update((row["topic"], row["partition"]) for row in rows)
        owned = self.accounts.ownership.owned
        own = owned.get(event.get("member_id") or "")
        if own is None:
            return
        for row in rows:
            partition = row["topic"], row["partition"]
            if partition in own:
                continue
            owner = self.accounts.ownership.last.get(partition, "")
            if partition in owned.get(owner, ()):
                self.foreign_commits.append(
                    ForeignCommit(
                        at_ns=self.accounts.now,
                        sequence=event["sequence"],
                        generation=event.get("generation"),
                        member_id=event["member_id"],
                        owner=owner,
                        partition=partition,
                        offset=int(row["offset"]),
                    )
                )
                return

    def _unchecked(self, event: Event) -> None:
        self.loose_offsets.append(
            LooseOffsets(
                at_ns=self.accounts.now,
                sequence=event["sequence"],
                generation=event.get("generation"),
                client_id=event.get("client_id") or "",
                producer_id=int(event["producer_id"]),
            )
        )

    def _struck(self, event: Event) -> None:
        self.strikes.append(
            Strike(
                at_ns=self.accounts.now,
                sequence=event["sequence"],
                fault=str(event.get("fault")),
                fault_id=int(event.get("fault_id") or 0),
                effect=str(event.get("cause")),
                api=event.get("api"),
                error=event.get("error"),
                member_id=event.get("member_id"),
                client_id=event.get("client_id") or "",
            )
        )

    def _commanded(self, event: Event) -> None:
        self.commands.append(
            Command(
                at_ns=self.accounts.now,
                sequence=event["sequence"],
                cause=str(event.get("cause")),
                max_size=event.get("max_size"),
            )
        )

    def _went_back(self, event: Event) -> None:
        for row in event["rewinds"]:
            self.rewound.append(
                Rewound(
                    at_ns=self.accounts.now,
                    sequence=event["sequence"],
                    generation=event.get("generation"),
                    cause=str(event.get("cause")),
                    member_id=event.get("member_id"),
                    client_id=event.get("client_id"),
                    topic=row["topic"],
                    partition=row["partition"],
                    previous=row["previous_offset"],
                    offset=row["offset"],
                )
            )

    def _delivered(self, event: Event) -> None:
        at_ns, sequence = self.accounts.now, event["sequence"]
        generation = event.get("generation")
        for row in event["again"]:
            self.repeated.append(
                Repeated(
                    at_ns=at_ns,
                    sequence=sequence,
                    generation=generation,
                    topic=row["topic"],
                    partition=row["partition"],
                    first=row["first"],
                    records=row["records"],
                    is_certain=row["is_certain"],
                    previous_reader=row["previous_reader"],
                    reader=row["reader"],
                    reason=row["reason_again"],
                )
            )
        for row in event["skips"]:
            self.skips.append(
                Skip(
                    at_ns=at_ns,
                    sequence=sequence,
                    generation=generation,
                    topic=row["topic"],
                    partition=row["partition"],
                    end=row["end"],
                    records=row["records"],
                    reader=row["reader"],
                    reason=row["reason_skipped"],
                )
            )

    def _append_failed(self, event: Event) -> None:
        self._note_too_large(event, str(event.get("cause")))

    def _note_too_large(self, event: Event, what: str) -> None:
        self.too_large.append(
            TooLarge(
                at_ns=self.accounts.now,
                sequence=event["sequence"],
                what=what,
                generation=event.get("generation"),
                size_bytes=event.get("size_bytes"),
                max_bytes=event.get("max_bytes"),
            )
        )

    def _note_refusal(self, event: Event, cause: str) -> None:
        connection = event.get("connection")
        sender = None
        if connection is not None:
            sender = self.accounts.membership.connections.get(connection)
        self.refusals.append(
            Refusal(
                at_ns=self.accounts.now,
                sequence=event["sequence"],
                member_id=event.get("member_id") or "",
                member=self._asker(event),
                error=str(event.get("error")),
                cause=cause,
                generation=event.get("generation"),
                connection=connection,
                sender=sender,
            )
        )

    def _asker(self, event: Event) -> Member:
        """The client that sent a request; it may never have been a member."""
        member_id = event.get("member_id") or ""
        return self.accounts.membership.members.get(member_id) or Member(
            member_id,
            event.get("instance_id"),
            event.get("client_id") or client_id_of(member_id),
            event.get("host") or "",
        )

    def _converted(self, event: Event) -> None:
        self.conversions.append(
            Conversion(
                at_ns=self.accounts.now,
                sequence=event["sequence"],
                cause=str(event.get("cause")),
                group_type=event["group_type"],
                member_id=event.get("member_id"),
            )
        )

    def _replaced(self, event: Event) -> None:
        new = event["member_id"]
        member = self.accounts.membership.members[new]
        self.replacements.append(
            Replacement(
                at_ns=self.accounts.now,
                sequence=event["sequence"],
                instance_id=member.instance_id or "",
                old=str(event.get("replaced_member_id")),
                new=new,
                silent_ns=event.get("silent_ns"),
            )
        )

    def _window_opened(self, event: Event) -> None:
        self.delays.append(int(event.get("delay_ms") or 0))

    def _carried(self, event: Event) -> None:
        account = Account.of(event)
        self.carried[account.key] = account
        known = self.accounts.membership.members
        for member_id in (*account.expected, *account.members, *account.culprits):
            known.setdefault(member_id, stranger(member_id))

    def _carried_quiet(self, event: Event) -> None:
        account = UnreadAccount.of(event)
        self.carried_quiet[account.key] = account

    def _found(self, event: Event) -> None:
        finding = None if event["is_withdrawn"] else Finding.of(event)
        self.found[event["finding"]] = finding


def _advance(event: Event) -> Advance:
    return Advance(
        at_ns=int(event["time_ns"]),
        sequence=event["sequence"],
        until_ns=int(event["until_ns"]),
        credits_heartbeats=bool(event.get("credits_heartbeats")),
    )


def weigh(account: Account | UnreadAccount) -> int:
    """Number of rows of an account."""
    if isinstance(account, UnreadAccount):
        return 1 + len(account.unread)
    rows = (account.members, account.waits, account.pauses, account.unread)
    more = (account.returns, account.moves or (), account.kept or ())
    return 1 + sum(map(len, rows)) + sum(map(len, more))
