"""Folds the events of a group into facts: accounts, refusals, replacements, gaps.

`kohort.broker.events.account` computes the accounts of rebalances. An account in the
stream (``rebalance_account``) has precedence: it may know more than these events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from kohort.broker.events.account import Account, UnreadAccount
from kohort.broker.events.account.accounts import OF_ALL
from kohort.broker.events.account.flow import take
from kohort.broker.events.account.group import GroupAccounts
from kohort.broker.events.account.membership import Member, client_id_of, stranger
from kohort.broker.events.account.values import Event, Partition
from kohort.control.why.facts import Facts, Refusal, Replacement, Strike, TooLarge
from kohort.control.why.transactions import Transactions

Waiting = Mapping[Partition, int]
"""Records behind the last stable offset, by partition."""


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
    transactions = Transactions()
    folding = _Folding(group, transactions)
    for event in events:
        transactions.take(event)
        folding.take(event)
    return folding.facts(until_ns, waiting)


def fold_all(
    events: Iterable[Event],
    until_ns: int | None = None,
    waiting: Waiting = MappingProxyType({}),
) -> dict[str, Facts]:
    """The facts of all groups that have an event, by group id."""
    transactions = Transactions()
    folding: dict[str, _Folding] = {}
    shared: list[Event] = []
    for event in events:
        transactions.take(event)
        group = event.get("group")
        if group is None:
            if event["kind"] in OF_ALL:
                shared.append(event)
                for each in folding.values():
                    each.take(event)
            continue
        if group not in folding:
            # Events lost before may have been this group's.
            folding[group] = _Folding(group, transactions)
            for event_of_all in shared:
                folding[group].take(event_of_all)
        folding[group].take(event)
    return {group: each.facts(until_ns, waiting) for group, each in folding.items()}


def _is_nobodys(event: Event) -> bool:
    """True if the event is ignored without a member_id."""
    return event["kind"] in {"pending_member_expired", "member_replaced"}


class _Folding:
    """One group, as far as its events have been read."""

    def __init__(self, group: str, transactions: Transactions) -> None:
        self.group = group
        self.transactions = transactions
        self.accounts = GroupAccounts(group)
        self.count = 0
        self.computed: list[Account] = []
        self.carried: dict[str, Account] = {}
        self.quiet: list[UnreadAccount] = []
        self.carried_quiet: dict[str, UnreadAccount] = {}
        self.gaps: list[tuple[int, int]] = []
        self.delays: list[int] = []
        self.refusals: list[Refusal] = []
        self.too_large: list[TooLarge] = []
        self.replacements: list[Replacement] = []
        self.strikes: list[Strike] = []
        self.unused: list[tuple[int, int, str]] = []
        self.committed: set[Partition] = set()
        self.on_kind: Mapping[str, Callable[[Event], None]] = {
            "pending_member_expired": self._pending_expired,
            "member_refused": self._refused,
            "member_replaced": self._replaced,
            "window_opened": self._window_opened,
            "rebalance_account": self._carried,
            "unread_account": self._carried_quiet,
            "offsets_committed": self._committed,
            "commit_refused": self._commit_refused,
            "fault_struck": self._struck,
            "append_failed": self._append_failed,
            "events_lost": self._lost,
        }

    def take(self, event: Event) -> None:
        """Takes in one event."""
        is_ours = event.get("group") == self.group
        if not is_ours and event["kind"] not in OF_ALL:
            return
        self.count += is_ours
        self.computed += take(self.accounts, event)
        self._take_quiet("read_again")
        handle = self.on_kind.get(event["kind"])
        if handle is not None and (event.get("member_id") or not _is_nobodys(event)):
            handle(event)

    def facts(self, until_ns: int | None, waiting: Waiting) -> Facts:
        """The facts so far."""
        accounts = self.accounts
        self.computed += accounts.close()
        self._take_quiet("broker_stopped")
        now = accounts.now if until_ns is None else max(accounts.now, until_ns)
        under_way = accounts.under_way(now)
        membership, ownership = accounts.membership, accounts.ownership
        owned, present = ownership.owned, membership.present
        rebalances = self._rebalances(under_way)
        concerned = self.committed | ownership.last.keys()
        transactions, fenced = self.transactions.concerning(self.group, concerned)
        if until_ns is None and transactions:
            now = max(now, self.transactions.now_ns)
        is_owned_known = ownership.is_known and all(m in owned for m in present)
        return Facts(
            group=self.group,
            since_ns=accounts.since_ns,
            until_ns=None if accounts.since_ns is None else now,
            since_generation=accounts.since_generation,
            rebalances=rebalances,
            quiet=self._quiet(),
            unread_since=() if under_way else accounts.unread_since(now),
            members=membership.members,
            lives=membership.lives,
            returns={row.previous_id: row for r in rebalances for row in r.returns},
            refusals=self.refusals,
            too_large=self.too_large,
            replacements=self.replacements,
            strikes=self.strikes,
            transactions=transactions,
            fenced=fenced,
            partitions=frozenset(concerned),
            waiting=waiting,
            unused_ids=self.unused,
            initial_delays_ms=self.delays,
            owned={m: len(owned[m]) for m in present} if is_owned_known else None,
            gaps=self.gaps,
            set_back_ns=accounts.set_back_ns,
            events=self.count,
        )

    def _rebalances(self, under_way: Account | None) -> list[Account]:
        """The accounts in order: those that the stream carries, and the others."""
        computed = [*self.computed, under_way] if under_way else self.computed
        if not self.carried:
            return computed
        carried = [*self.carried.values()]
        others = [each for each in computed if not self._is_carried(each)]
        return sorted([*carried, *others], key=lambda each: each.started_ns)

    def _take_quiet(self, cause: str) -> None:
        found = self.accounts.take_unread(cause)
        if found is not None:
            self.quiet.append(found)

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

    def _commit_refused(self, event: Event) -> None:
        if event.get("error") == "UNKNOWN_SERVER_ERROR":
            self._note_too_large(event, "offsets")
        else:
            self._note_refusal(event, "commit")

    def _committed(self, event: Event) -> None:
        rows = event.get("offsets") or ()
        self.committed.update((row["topic"], row["partition"]) for row in rows)

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

    def _lost(self, event: Event) -> None:
        self.gaps.append((int(event["first"]), int(event["last"])))
