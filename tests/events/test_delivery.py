"""The account of delivery without a broker: its ranges, grades and reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kohort.broker.events.account.accounts import Accounts
from kohort.broker.events.delivery import Delivery
from kohort.broker.events.delivery.account import Deliveries
from kohort.broker.events.delivery.notes import (
    Asked,
    Dropped,
    Ended,
    Note,
    OutOfRange,
    Read,
    Sent,
)
from kohort.broker.events.delivery.passages import MOST_ROWS
from kohort.broker.events.delivery.segments import MOST, Segments
from kohort.broker.long_work import finish
from kohort.broker.notice import Client

MS = 1_000_000
LATER_MS = 1_000
"""Longer than a commit that is part of the close may precede it."""


class Play:
    """Groups that read the topic "t"; each client has a connection to fetch.

    Attributes:
        now_ms: the time; it moves by a millisecond with each step.
    """

    def __init__(self, assignor: str = "range") -> None:
        self.accounts = Accounts()
        self.deliveries = Deliveries(self.accounts)
        self.now_ms = 0
        self.owned: dict[tuple[str, str], set[int]] = {}
        self.generation: dict[str, int] = {}
        self._assignor = assignor
        self._sequence = 0

    # -- events

    def event(self, kind: str, member: str, group: str = "g", **fields: Any) -> None:
        """An event of a member, on a connection of its coordinator."""
        self._sequence += 1
        self.now_ms += 1
        event = {
            "run": "r",
            "node": 0,
            "sequence": self._sequence,
            "kind": kind,
            "group": group,
            "generation": self.generation.get(group, 0),
            "member_id": member,
            "client_id": "app",
            "host": "/h",
            "instance_id": None,
            "connection": None,
            "reason": None,
            "time_ns": self.now_ms * MS,
            "wall_ns": self.now_ms * MS,
            **fields,
        }
        self.accounts.take(event)
        self.deliveries.take(event)

    def start(self, cause: str, member: str, group: str = "g") -> None:
        """A rebalance starts."""
        members = sorted(each for name, each in self.owned if name == group)
        self.event(
            "rebalance_started",
            member,
            group,
            cause=cause,
            previous_state="Stable",
            members=members,
            culprits=[member],
        )

    def join(self, member: str, group: str = "g") -> None:
        """A member joins: an eager one stops reading."""
        self.event(
            "member_joined",
            member,
            group,
            protocols=[self._assignor],
            topics=["t"],
            session_timeout_ms=1,
            rebalance_timeout_ms=1,
        )

    def assign(self, group: str = "g", **shares: tuple[int, ...]) -> None:
        """The next generation, with the partitions of each member."""
        self.generation[group] = self.generation.get(group, 0) + 1
        members = sorted(shares)
        self.event(
            "join_completed",
            members[0],
            group,
            protocol=self._assignor,
            leader=members[0],
            members=members,
            gained=[],
            lost=[],
            waits=[],
        )
        self.event("assignment_made", members[0], group, bytes=1, metadata_bytes=1)
        for member, share in shares.items():
            before = self.owned.get((group, member), set())
            self.owned[group, member] = {*share}
            self.event(
                "partitions_changed",
                member,
                group,
                cause="assigned",
                owned=_parts({*share}),
                partitions_gained=_parts({*share} - before),
                partitions_lost=_parts(before - {*share}),
            )
        for member in shares:
            self.event("member_synced", member, group)

    def began(self, group: str = "g", **shares: tuple[int, ...]) -> None:
        """The first generation."""
        for member in shares:
            self.join(member, group)
            self.owned[group, member] = set()
        self.start("member_joined", next(iter(shares)), group)
        self.assign(group, **shares)

    def rebalanced(self, group: str = "g", **shares: tuple[int, ...]) -> None:
        """A rebalance of these members; commits in it are for `start` and `assign`."""
        self.start("requested", next(iter(shares)), group)
        for member in shares:
            self.join(member, group)
        self.assign(group, **shares)

    def gone(self, member: str, how: str = "member_left", **fields: Any) -> None:
        """A member leaves, or is removed."""
        lost = self.owned.pop(("g", member), set())
        self.event(how, member, **fields)
        self.event(
            "partitions_changed",
            member,
            cause="gone",
            owned=[],
            partitions_gained=[],
            partitions_lost=_parts(lost),
        )

    def commit(
        self,
        member: str,
        offset: int,
        group: str = "g",
        partition: int = 0,
        **more: Any,
    ) -> None:
        """An accepted commit."""
        self.now_ms += 1
        event = {
            "member_id": member,
            "client_id": "app",
            "host": "/h",
            "generation": self.generation.get(group, 0),
            "producer_id": None,
            "wall_ns": self.now_ms * MS,
            **more,
        }
        accounts = self.accounts.of(group)
        rows = [("t", partition, offset)]
        self.deliveries.of(group).commit(event, rows, accounts)

    # -- fetches

    def note(self, note: Note) -> None:
        """A note, a millisecond later."""
        self.now_ms += 1
        if not isinstance(note, Dropped):
            note = note._replace(wall_ns=self.now_ms * MS)
        self.deliveries.note(note)

    def ask(
        self, offset: int, on: int = 1, partition: int = 0, log_start: int = 0
    ) -> None:
        """A Fetch, on a connection; it has read the response before."""
        client = Client("app", "/h", on)
        self.note(Read(client, 0))
        self.note(Asked(client, "t", partition, offset, log_start, False, 0))

    def send(self, offset: int, end: int, on: int = 1, partition: int = 0) -> None:
        """A response with records."""
        self.note(Sent(Client("app", "/h", on), "t", partition, offset, end, 0))

    def read(self, offset: int, end: int, on: int = 1, partition: int = 0) -> None:
        """A Fetch, its response, and the next Fetch."""
        self.ask(offset, on, partition)
        self.send(offset, end, on, partition)
        self.ask(end, on, partition)

    @property
    def account(self) -> Delivery:
        """The account, with all offsets as records."""
        return finish(
            self.deliveries.counted("g", lambda *row: row[3] - row[2]).delivery()
        )

    @property
    def again(self) -> list[tuple[int, int, bool, str, bool]]:
        """First offset, end, whether certain, reason, whether due."""
        rows = self.account.again
        return [(r.first, r.end, r.is_certain, r.reason, r.is_due) for r in rows]

    @property
    def skipped(self) -> list[tuple[int, int, str]]:
        """First offset, end, reason."""
        return [(row.first, row.end, row.reason) for row in self.account.skipped]


def _parts(found: set[int]) -> list[dict[str, Any]]:
    return [{"topic": "t", "partitions": sorted(found)}] if found else []


@pytest.fixture
def play() -> Play:
    """A member "a" that reads partition 0, and has received ten records."""
    play = Play()
    play.began(a=(0,))
    play.read(0, 10)
    return play


# -- ranges


def test_ranges_are_merged_cut_and_replaced() -> None:
    """Neighbours with equal values are one range; a later value replaces parts."""
    found = Segments[str]()
    found.set(0, 4, "a")
    found.set(4, 6, "a")
    found.set(2, 3, "b")
    assert found.rows == [(0, 2, "a"), (2, 3, "b"), (3, 6, "a")]
    found.remove(1, 4)
    assert found.rows == [(0, 1, "a"), (4, 6, "a")]
    assert [*found.gaps(0, 8)] == [(1, 4), (6, 8)]
    assert found.within(5, 7) == [(5, 6, "a")]


def test_there_are_not_too_many_ranges() -> None:
    """The first ones go; the account says from where on it is complete."""
    found = Segments[int]()
    for number in range(MOST + 1):
        found.set(2 * number, 2 * number + 1, number)
    assert len(found.rows) == MOST // 2
    assert found.complete_from == found.rows[0][0] > 0


# -- sent again


def test_the_same_reader_seeks_back(play: Play) -> None:
    """What it had committed is certain, the rest possible."""
    play.commit("a", 6)
    play.read(3, 10)
    assert play.again == [(3, 6, True, "seek", False), (6, 10, False, "seek", False)]


def test_a_seek_before_the_next_fetch() -> None:
    """The Fetch shows that the response before was read, whatever it asks for."""
    play = Play()
    play.began(a=(0,))
    play.ask(0)
    play.send(0, 10)
    play.read(3, 10)
    assert play.again == [(3, 10, False, "seek", False)]


@pytest.mark.parametrize("is_read", [False, True])
def test_records_are_due_until_the_next_reader_has_them(
    play: Play, is_read: bool
) -> None:
    """The number is the same before and after its first Fetch."""
    play.commit("a", 4)
    play.now_ms += LATER_MS
    play.rebalanced(a=(), b=(0,))
    if is_read:
        play.read(4, 12, on=2)
    assert play.again == [(4, 10, False, "rebalance", not is_read)]
    assert bool(play.account.open) is not is_read


def test_a_reader_that_stops_may_have_handled_all_that_it_was_sent(
    play: Play,
) -> None:
    """Even if its next Fetch never came."""
    play.send(10, 15)
    play.note(Ended(Client("app", "/h", 1), was_read=True, wall_ns=0))
    play.gone("a", "member_expired")
    play.join("b")
    play.assign(b=(0,))
    play.read(0, 15, on=2)
    assert play.again == [(0, 15, False, "expired", False)]


def test_a_connection_that_was_reset_has_not_read_the_last_response(
    play: Play,
) -> None:
    """Nobody has handled that."""
    play.send(10, 15)
    play.note(Ended(Client("app", "/h", 1), was_read=False, wall_ns=0))
    play.gone("a", "member_expired")
    play.join("b")
    play.assign(b=(0,))
    play.read(0, 15, on=2)
    assert play.again == [(0, 10, False, "expired", False)]


def test_a_new_connection_goes_on_where_the_old_one_was(play: Play) -> None:
    """The leader moved; the last response of the old one was lost, or read."""
    play.send(10, 15)
    play.note(Ended(Client("app", "/h", 1), was_read=False, wall_ns=0))
    play.read(10, 15, on=2)
    play.read(15, 20, on=3)
    assert (play.account.records, play.again, play.skipped) == (20, [], [])


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("member_left", "left"),
        ("member_expired", "expired"),
        ("member_kicked", "kicked"),
    ],
)
def test_members_that_are_gone(play: Play, how: str, reason: str) -> None:
    """The reason is how the reader went."""
    play.now_ms += LATER_MS
    play.gone("a", how)
    play.join("b")
    play.assign(b=(0,))
    play.read(0, 10, on=2)
    ((*_, found, _),) = play.again
    assert found in {reason, "removed", "commanded"}


def test_a_commit_goes_back(play: Play) -> None:
    """It is an event of its own, and the reason why records come again."""
    play.commit("a", 10)
    play.commit("a", 7)
    (back,) = play.account.went_back
    assert (back.previous, back.offset, back.reason) == (10, 7, "commit")
    play.rebalanced(a=(0,))
    play.read(7, 10)
    assert play.again == [(7, 10, True, "went_back", False)]


@pytest.mark.parametrize(
    ("member", "producer_id", "reason"), [("a", 5, "transaction"), ("", None, "admin")]
)
def test_others_set_the_offset_back(
    play: Play, member: str, producer_id: int | None, reason: str
) -> None:
    """A transaction; an admin, while the group has no members."""
    play.commit("a", 10)
    if reason == "admin":
        play.gone("a")
    play.commit(member, 2, producer_id=producer_id)
    (back,) = play.account.went_back
    assert back.reason == reason


def test_a_refused_commit_shows_that_records_were_handled(play: Play) -> None:
    """They come again, for certain."""
    offsets = [{"topic": "t", "partition": 0, "offset": 10}]
    play.event("commit_refused", "a", offsets=offsets)
    play.rebalanced(a=(), b=(0,))
    play.read(0, 10, on=2)
    assert play.again == [(0, 10, True, "commit_refused", False)]


def test_the_offset_was_deleted(play: Play) -> None:
    """Its readers begin anew."""
    play.commit("a", 10)
    play.event("offsets_deleted", "a", deleted=_parts({0}))
    play.rebalanced(a=(0,))
    play.read(0, 10)
    assert play.again == [(0, 10, True, "offset_deleted", False)]


def test_out_of_range_to_the_earliest(play: Play) -> None:
    """``auto.offset.reset`` took effect."""
    play.commit("a", 10)
    play.note(OutOfRange(Client("app", "/h", 1), "t", 0, 10, 0, 0))
    play.read(0, 10)
    assert play.again == [(0, 10, True, "out_of_range", False)]


def test_a_member_that_forgot_its_id_commits_in_vain(play: Play) -> None:
    """The connection tells. It goes on with the records that it has."""
    for offset in (2, 4, 6):
        play.commit("a", offset)
    play.event("member_joined", "a", connection=9, protocols=["range"], topics=["t"])
    offsets = [{"topic": "t", "partition": 0, "offset": 8}]
    play.event("commit_refused", "", connection=9, offsets=offsets)
    play.rebalanced(a=(), b=(0,))
    play.read(6, 10, on=2)
    assert play.again == [
        (6, 8, True, "commit_refused", False),
        (8, 10, False, "commit_refused", False),
    ]


def test_a_member_goes_on_with_its_records_after_it_has_joined_again() -> None:
    """It commits as ever, and gets the same records once more."""
    play = Play()
    play.began(a=(0,))
    play.read(0, 50)
    for offset in (7, 14, 21, 28):
        play.commit("a", offset)
    play.start("requested", "a")
    play.join("a")
    play.commit("a", 35)
    play.assign(a=(0,))
    play.ask(28)
    play.send(28, 50)
    play.commit("a", 42)
    play.ask(50)
    assert play.again == [
        (28, 35, True, "rebalance", False),
        (35, 50, False, "rebalance", False),
    ]


# -- given back


def test_a_commit_in_the_rebalance_gives_the_rest_back(play: Play) -> None:
    """An eager member commits when its partitions are revoked."""
    play.start("member_joined", "b")
    play.commit("a", 4)
    play.join("a")
    play.join("b")
    play.assign(a=(), b=(0,))
    play.read(4, 10, on=2)
    assert (play.again, play.account.records) == ([], 10)


def test_a_cooperative_member_commits_after_the_sync() -> None:
    """It learns only then of the revocation."""
    play = Play("cooperative-sticky")
    play.began(a=(0,))
    play.read(0, 10)
    play.start("member_joined", "b")
    play.join("a")
    play.join("b")
    play.assign(a=(), b=())
    play.commit("a", 4)
    play.rebalanced(a=(), b=(0,))
    play.read(4, 10, on=2)
    assert play.again == []


@pytest.mark.parametrize(
    ("after_ms", "offsets", "again"),
    [
        (0, (7,), []),
        (LATER_MS, (7,), [(7, 10)]),
        # Regular distances: it may have handled one more, and not three.
        (0, (3, 6), [(6, 10)]),
        (LATER_MS, (2, 4, 6), [(6, 7)]),
        # The last one is nearer: it had to stop.
        (0, (3, 6, 7), []),
    ],
)
def test_a_commit_before_a_leave(
    play: Play, after_ms: int, offsets: tuple[int, ...], again: list[tuple[int, int]]
) -> None:
    """It is part of the close, unless it is one of many, or some time ago."""
    for offset in offsets:
        play.commit("a", offset)
    play.now_ms += after_ms
    play.gone("a")
    play.join("b")
    play.assign(b=(0,))
    play.read(offsets[-1], 10, on=2)
    assert [(row[0], row[1]) for row in play.again] == again


def test_records_after_the_last_commit(play: Play) -> None:
    """It was no commit of the close: the member went on."""
    play.commit("a", 7)
    play.send(10, 12)
    play.gone("a")
    play.join("b")
    play.assign(b=(0,))
    play.read(7, 12, on=2)
    assert play.again == [(7, 12, False, "left", False)]


@pytest.fixture
def cooperative() -> Play:
    """A cooperative member, with regular commits, that has just lost a partition."""
    play = Play("cooperative-sticky")
    play.began(a=(0, 1))
    play.read(0, 200)
    play.read(0, 200, partition=1)
    for offset in range(7, 95, 7):
        play.commit("a", offset)
    play.start("member_joined", "b")
    play.join("a")
    play.join("b")
    play.assign(a=(1,), b=())
    return play


def test_a_cooperative_member_finishes_its_work_after_the_sync(
    cooperative: Play,
) -> None:
    """Its commits show how much it has handled, and may be followed by some more."""
    for offset in range(98, 150, 7):
        cooperative.commit("a", offset)
    cooperative.rebalanced(a=(1,), b=(0,))
    cooperative.read(147, 200, on=2)
    assert cooperative.skipped == []
    assert cooperative.again == [(147, 153, False, "rebalance", False)]


def test_a_nearer_commit_after_the_sync_gives_the_rest_back(cooperative: Play) -> None:
    """It had to stop."""
    cooperative.commit("a", 95)
    cooperative.rebalanced(a=(1,), b=(0,))
    cooperative.read(95, 200, on=2)
    assert (cooperative.skipped, cooperative.again) == ([], [])


def test_a_commit_after_the_sync_gives_back_partitions_that_it_does_not_name() -> None:
    """The member had handled nothing of them."""
    play = Play("cooperative-sticky")
    play.began(a=(0, 1))
    play.read(0, 10)
    play.read(0, 10, partition=1)
    play.rebalanced(a=(0,), b=())
    play.commit("a", 4)
    play.rebalanced(a=(0,), b=(1,))
    play.read(0, 10, on=2, partition=1)
    assert play.again == []


def test_a_commit_shows_that_a_late_response_was_read() -> None:
    """It was sent when the member had lost the partition, and did not know it."""
    play = Play("cooperative-sticky")
    play.began(a=(0,))
    play.read(0, 10)
    play.rebalanced(a=(), b=())
    play.send(10, 20)
    play.commit("a", 20)
    play.rebalanced(a=(), b=(0,))
    play.ask(20, on=2)
    assert (play.skipped, play.again, play.account.records) == ([], [], 20)


@pytest.mark.parametrize(
    ("order", "again"),
    [("send read join", (0, 20)), ("join send read", (0, 10)), ("send join", (0, 10))],
)
def test_a_late_response_that_may_have_been_used(
    order: str, again: tuple[int, int]
) -> None:
    """It was read by a member that had not learnt yet of what it had lost."""
    play = Play("cooperative-sticky")
    play.began(a=(0,))
    play.read(0, 10)
    play.rebalanced(a=(), b=())
    steps: dict[str, Callable[[], None]] = {
        "send": lambda: play.send(10, 20),
        "read": lambda: play.ask(20),
        "join": lambda: play.join("a"),
    }
    for step in order.split():
        steps[step]()
    play.rebalanced(a=(), b=(0,))
    play.read(0, 20, on=2)
    assert play.again == [(*again, False, "rebalance", False)]


def test_a_transaction_undoes_what_it_had_not_committed(play: Play) -> None:
    """Also after a crash."""
    play.commit("a", 4, producer_id=5)
    play.now_ms += LATER_MS
    play.gone("a", "member_expired")
    play.join("b")
    play.assign(b=(0,))
    play.read(4, 10, on=2)
    assert play.again == []


@pytest.mark.parametrize("partition", [0, 1])
def test_an_aborted_transaction_is_no_work(play: Play, partition: int) -> None:
    """The reader goes back to its committed offset, and reads on from there.

    A commit in any partition shows that its group works in transactions.
    """
    play.commit("a", 4, producer_id=5, partition=partition)
    begin = 4 if partition == 0 else 0
    play.read(begin, 10)
    assert (play.again, play.account.records) == ([], 10)
    play.commit("a", 10, producer_id=5)
    play.read(7, 10)
    assert play.again == [(7, 10, True, "seek", False)]


def test_an_admin_does_not_end_the_work_in_transactions(play: Play) -> None:
    """Only a member's own commit does, but for the one of a reset."""
    play.commit("a", 4, producer_id=5)
    play.gone("a")
    play.commit("", 4)
    play.join("b")
    play.assign(b=(0,))
    play.commit("b", -2)
    play.read(4, 10, on=2)
    play.read(4, 10, on=2)
    assert play.again == []
    play.commit("b", 4)
    play.read(4, 10, on=2)
    assert play.again == [(4, 10, False, "seek", False)]


def test_a_transaction_that_is_aborted_before_any_was_committed(play: Play) -> None:
    """Nothing shows yet that the reader works in transactions."""
    play.read(0, 10)
    assert play.again == [(0, 10, False, "seek", False)]


def test_a_cooperative_member_drops_what_it_has_fetched() -> None:
    """A partition stays with it in a rebalance, and it asks for records again."""
    play = Play("cooperative-sticky")
    play.began(a=(0,))
    play.read(0, 10)
    play.rebalanced(a=(0,))
    play.ask(4)
    play.send(4, 10)
    play.read(4, 10)
    assert (play.again, play.account.records) == ([], 10)
    play.read(4, 10)
    assert play.again == [(4, 10, False, "seek", False)]


def test_a_fetch_from_before_the_rebalance(play: Play) -> None:
    """Some clients use its response: the next Fetch goes on behind it."""
    play.rebalanced(a=(0,))
    play.send(10, 12)
    play.ask(12)
    assert (play.skipped, play.again, play.account.records) == ([], [], 12)


@pytest.mark.parametrize("owner", ["a", "b"])
def test_a_commit_shows_that_the_response_was_used(play: Play, owner: str) -> None:
    """The reader asks for the same records again; or the next owner does."""
    shares: dict[str, tuple[int, ...]] = {"a": (), owner: (0,)}
    play.rebalanced("g", **shares)
    play.send(10, 13)
    play.commit("a", 11)
    play.commit("a", 12)
    play.read(11, 13, on=1 if owner == "a" else 2)
    assert (play.skipped, play.account.records) == ([], 13)
    assert play.again == [(11, 12, True, "rebalance", False)]


def test_a_response_from_before_the_rebalance_counts_once(play: Play) -> None:
    """A commit shows that it was used, and then the next Fetch."""
    play.rebalanced(a=(0,))
    play.send(10, 13)
    play.commit("a", 12)
    play.ask(13)
    assert (play.skipped, play.again, play.account.records) == ([], [], 13)


def test_the_response_was_used_although_others_had_the_records(play: Play) -> None:
    """A former owner commits what the new one has received."""
    play.rebalanced(a=(), b=(0,))
    play.send(10, 12)
    play.read(10, 12, on=2)
    play.commit("a", 12)
    assert play.again == [(10, 12, False, "rebalance", False)]


def test_others_have_read_as_far_as_a_dropped_response(play: Play) -> None:
    """Its reader comes back, and begins where they have ended."""
    play.rebalanced(a=(), b=(0,))
    play.send(10, 12)
    play.read(10, 12, on=2)
    play.commit("b", 12)
    play.rebalanced(a=(0,), b=())
    play.ask(12)
    assert (play.again, play.account.records) == ([], 12)


def test_a_response_with_an_error_is_dropped(play: Play) -> None:
    """Another partition was out of range: kafkajs asks for all of them again."""
    play.rebalanced(a=(0, 1))
    for partition in (0, 1):
        play.ask(10, partition=partition)
    play.send(10, 12)
    play.note(OutOfRange(Client("app", "/h", 1), "t", 1, 10, 20, 0))
    play.read(10, 12)
    assert play.again == []
    play.read(10, 12)
    assert play.again == [(10, 12, False, "seek", False)]


def test_a_fetch_from_before_the_rebalance_that_is_dropped(play: Play) -> None:
    """Other clients ask for the same records again."""
    play.rebalanced(a=(0,))
    play.send(10, 12)
    play.read(10, 12)
    assert (play.skipped, play.again, play.account.records) == ([], [], 12)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_member_drops_what_it_fetched_without_owning_the_partition(
    play: Play, is_late: bool
) -> None:
    """Its old fetch goes on until it learns that the partition is back."""
    play.rebalanced(a=(), b=())
    play.ask(10)
    play.rebalanced(a=(), b=(0,))
    play.ask(10, on=2)
    play.rebalanced(a=(0,), b=())
    if is_late:
        play.send(10, 12)
        play.ask(12)
    else:
        play.read(10, 12)
    play.read(10, 12)
    assert (play.again, play.skipped, play.account.records) == ([], [], 12)


# -- the end


def test_the_end_of_the_work_leaves_nothing_due(play: Play) -> None:
    """The last member had rejoined because the other one had left."""
    play.rebalanced(a=(0,), b=())
    play.ask(10)
    play.gone("b")
    play.start("member_left", "b")
    play.join("a")
    play.gone("a")
    assert play.again == []


def test_a_move_before_the_end_stays_due(play: Play) -> None:
    """The new owner has not fetched, and then both closed."""
    play.rebalanced(a=(), b=(0,))
    for member in ("a", "b"):
        play.gone(member)
        play.start("member_left", member)
    assert play.again == [(0, 10, False, "rebalance", True)]


# -- skipped


def test_a_reset_to_the_end(play: Play) -> None:
    """Nothing was committed."""
    play.rebalanced(a=(0,))
    play.ask(15)
    assert play.skipped == [(10, 15, "reset")]


def test_out_of_range_to_the_latest(play: Play) -> None:
    """``auto.offset.reset`` took effect."""
    play.commit("a", 10)
    play.note(OutOfRange(Client("app", "/h", 1), "t", 0, 10, 0, 0))
    play.ask(15)
    assert play.skipped == [(10, 15, "out_of_range")]


def test_deleted_records(play: Play) -> None:
    """The log begins where the reader does."""
    play.commit("a", 10)
    play.ask(15, log_start=15)
    assert play.skipped == [(10, 15, "deleted")]


def test_a_commit_ahead(play: Play) -> None:
    """The next reader begins there."""
    play.commit("a", 15)
    play.rebalanced(a=(), b=(0,))
    play.ask(15, on=2)
    assert play.skipped == [(10, 15, "commit_ahead")]


def test_a_seek_ahead_that_is_undone(play: Play) -> None:
    """What a reader gets after all was not skipped."""
    play.ask(15)
    assert play.skipped == [(10, 15, "seek")]
    play.read(10, 12)
    assert play.skipped == [(12, 15, "seek")]


def test_a_partition_that_is_found_late(play: Play) -> None:
    """It was read from its end."""
    play.rebalanced(a=(0, 1))
    play.ask(5, partition=1)
    assert play.skipped == [(0, 5, "found_late")]


# -- readers


def test_two_groups_with_the_same_client() -> None:
    """Whose reader it is remains unknown."""
    play = Play()
    play.began(a=(0,))
    play.began("other", x=(0,))
    play.read(0, 10)
    account = play.account
    assert (account.records, account.unknown) == (0, 10)


def test_a_reader_outside_of_the_group(play: Play) -> None:
    """The same client reads everything, on another connection."""
    play.commit("a", 10)
    play.read(0, 10, on=2)
    play.read(10, 12)
    account = play.account
    assert (account.records, account.unknown, play.again) == (12, 10, [])


def test_a_zombie_reads_on(play: Play) -> None:
    """Its session has expired, and another member reads now."""
    play.commit("a", 10)
    play.gone("a", "member_expired")
    play.join("b")
    play.assign(b=(0,))
    play.read(10, 12, on=2)
    play.read(10, 20, on=1)
    play.read(12, 14, on=2)
    assert (play.account.records, play.again, play.skipped) == (14, [], [])


def test_a_topic_that_is_created_again(play: Play) -> None:
    """Its offsets are other records."""
    play.commit("a", 10)
    play.note(Dropped("t", 0))
    play.rebalanced(a=(), b=(0,))
    play.rebalanced(a=(0,), b=())
    play.read(0, 5)
    assert (play.account.records, play.again) == (5, [])


def test_an_offset_from_before_the_account() -> None:
    """The group was loaded: a reader below its offset gets handled records."""
    play = Play()
    play.deliveries.loaded("g", {("t", 0): 10})
    play.began(a=(0,))
    play.read(8, 12)
    assert play.again == [(8, 10, True, "seek", False)]
    (row,) = play.account.again
    assert row.first_reader == ""


def test_rows_are_bounded(play: Play) -> None:
    """A reader that goes back forever."""
    for _ in range(MOST_ROWS + 10):
        play.read(0, 10)
    assert len(play.account.again) == MOST_ROWS
