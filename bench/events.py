"""The cost of events without a reader: CPU of coordinator and driver, on and off.

    python -m bench.events

One group; its members rebalance, each time with other partitions, send heartbeats,
and commit 10 partitions. The wire is left out, so shares of a whole broker's CPU
are smaller than those here. ``--level info`` writes the lines of `kohort serve`, too.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import time
from collections.abc import Callable, Sequence

from kohort.broker import telemetry
from kohort.broker.coordinator.classic.group import find
from kohort.broker.coordinator.coordinator import Coordinator
from kohort.broker.coordinator.effects import Written
from kohort.broker.coordinator.events import (
    CommitOffsets,
    Heartbeat,
    Join,
    Offsets,
    Sync,
)
from kohort.broker.coordinator.load import Loading
from kohort.broker.coordinator.settings import GroupSettings
from kohort.broker.events.bus import Events
from kohort.broker.events.lines import write_line
from kohort.broker.notice import Client
from kohort.broker.runtime.events import Expired
from kohort.broker.shards.group_driver import GroupDriver
from kohort.broker.shards.group_records import Encoder
from kohort.protocol.consumer import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode,
)

PARTITIONS = 10
_CLIENT = Client("bench", "/127.0.0.1", 1)
"""The sender of commits."""


class _Still:
    """A clock that stands, and whose timers never fire."""

    def now(self) -> float:
        return 1_700_000_000.0

    def call_at(self, _when: float, _callback: Callable[[], object]) -> _Still:
        return self

    def cancel(self) -> None:
        pass


class _Nobody:
    """Recipient of replies, which drops them."""

    def answer(self, _: object) -> None:
        pass

    def answer_alike(self, _: object, value: str | bytes) -> None:
        pass

    def forget(self, why: str) -> None:
        pass


class _Log:
    """A log that keeps nothing: encoding is part of the cost, writing is not."""

    largest = 1 << 30

    def __init__(self) -> None:
        self._encoder = Encoder()

    def encode(self, records: Sequence[Written], now: float) -> bytes:
        return self._encoder.encode(records, int(now * 1000))

    def write(self, batch: bytes, now: float) -> None:
        pass

    def write_commit(self, group_id: str, offsets: Offsets, now_ms: int) -> bool:
        self._encoder.framed_commit(group_id, offsets, now_ms)
        return True


class Group:
    """A group of some members, with events or without them."""

    def __init__(self, size: int, *, listening: bool) -> None:
        events = Events()
        events.begin("bench")
        events.listening = listening
        events.listen(write_line)
        numbers = itertools.count()
        self.coordinator = Coordinator(
            GroupSettings(initial_rebalance_delay_ms=0),
            lambda prefix: f"{prefix}-{next(numbers)}",
        )
        self.coordinator.listening = listening
        publish = events.of(1).publish
        self._driver = GroupDriver(
            self.coordinator, _Still(), _Log(), lambda: None, publish, linger_ms=0
        )
        self._driver.start(Loading())
        self._rounds = itertools.count()
        self._offered = encode(Subscription(["orders", "payments"]))
        self.ids = [""] * size
        for _ in range(2):
            self._join()
            # The initial window has no length, and no timer fires here.
            self._driver.submit(Expired(("join", "g")))
            group = find(self.coordinator.groups, "g")
            assert group is not None
            # The leader begins a rebalance by joining; others would not.
            self.ids = sorted(group.members, key=lambda each: each != group.leader)
        self.rebalance()

    def _join(self) -> None:
        for member_id in self.ids:
            # As decoded anew from each request.
            offers = [("range", bytes(bytearray(self._offered)))]
            client = (member_id, None, _CLIENT, 30_000, 30_000)
            token = _Nobody()
            join = Join(token, "g", *client, "consumer", offers, None, False, True)
            self._driver.submit(join)

    def rebalance(self) -> None:
        """All members join and sync; the leader assigns all partitions."""
        self._join()
        shift, count = next(self._rounds), len(self.ids)
        dealt = [
            (member_id, encode(Assignment([TopicPartitions("orders", [place])])))
            for place, member_id in enumerate(
                self.ids[(shift + i) % count] for i in range(count)
            )
        ]
        for member_id in reversed(self.ids):
            made = dealt if member_id == self.ids[0] else []
            names = ("consumer", "range", True)
            generation_id = self.coordinator.groups["g"].generation_id
            who = (generation_id, member_id, None)
            self._driver.submit(Sync(_Nobody(), "g", *who, *names, made))
        assert self.coordinator.groups["g"].state == "Stable"

    def heartbeat(self) -> None:
        """All members send a heartbeat."""
        generation_id = self.coordinator.groups["g"].generation_id
        for member_id in self.ids:
            beat = Heartbeat(_Nobody(), "g", generation_id, member_id, None)
            self._driver.submit(beat)

    def commit(self) -> None:
        """All members commit."""
        generation_id = self.coordinator.groups["g"].generation_id
        for member_id in self.ids:
            rows = [("orders", p, 5, -1, "", 5) for p in range(PARTITIONS)]
            offsets = Offsets.of(rows)
            member = (generation_id, member_id, None, _CLIENT)
            event = CommitOffsets(_Nobody(), "g", *member, False, offsets)
            self._driver.submit(event)


def cost_us(act: Callable[[], None], members: int) -> float:
    """CPU per member in microseconds."""
    begin = time.process_time()
    act()
    return (time.process_time() - begin) * 1e6 / members


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=100, help="(%(default)s)")
    parser.add_argument("--level", default="warning", choices=telemetry.LEVELS[1:3])
    asked = parser.parse_args()
    telemetry.configure("json", asked.level)
    groups = {on: Group(asked.members, listening=on) for on in (False, True)}
    gc.collect()
    gc.freeze()
    print("| us of CPU, per member | without events | with events | more |")
    print("| --- | --- | --- | --- |")
    for what in ("rebalance", "heartbeat", "commit"):
        costs: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(asked.rounds):
            for on, group in groups.items():
                costs[on].append(cost_us(getattr(group, what), asked.members))
        # The middle of those that nothing else disturbed.
        without, of = (sorted(costs[each])[asked.rounds // 4] for each in (False, True))
        print(f"| {what} | {without:.2f} | {of:.2f} | {of - without:.2f} |")


if __name__ == "__main__":
    main()
