"""The members of one topic by load, while the uniform assignor balances them."""

from __future__ import annotations

from typing import Final

NO_MEMBER: Final = -1


class Loads:
    """Members of a topic, sorted by the number of partitions they have.

    The members at the start have the least and get partitions in turn; when each of
    them has got one, those that follow with as many join them. The members at the end
    have the most and give partitions in turn, in the same way. Kafka decides by these
    turns which members give and get, so they are Kafka's to the letter.

    Args:
        members: the topic's members: indices in ascending order; not empty.
        sizes: the number of partitions of each member, by index. The caller counts on.
    """

    def __init__(self, members: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._sorted = sorted(members, key=sizes.__getitem__)
        fewest, most = sizes[self._sorted[0]], sizes[self._sorted[-1]]
        self.imbalance = most - fewest
        """The difference between the members with most and least, at the start."""
        self._low_end = 0
        self._low_size = fewest - 1
        self._low_next = 0
        self._high_start = self._high_end = len(self._sorted)
        self._high_size = most + 1
        self._high_next = len(self._sorted) - 1

    def next_to_get(self) -> int:
        """The next of the members with the least."""
        if self._low_next >= self._low_end:
            self._low_size += 1
            end, count = self._low_end, len(self._sorted)
            while end < count and self._sizes[self._sorted[end]] == self._low_size:
                end += 1
            self._low_end = end
            self._low_next = 0
        member = self._sorted[self._low_next]
        self._low_next += 1
        return member

    def next_to_give(self) -> int:
        """The next of the members with the most; `NO_MEMBER` if there is none."""
        if self._high_next < self._high_start:
            start = self._high_start
            if self._high_end <= start and start > 0:
                self._high_size = self._sizes[self._sorted[start - 1]]
            else:
                self._high_size -= 1
            while start > 0 and self._sizes[self._sorted[start - 1]] == self._high_size:
                start -= 1
            self._high_start = start
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return NO_MEMBER
        member = self._sorted[self._high_next]
        self._high_next -= 1
        return member

    def exclude_giver(self) -> None:
        """Lets the member that `next_to_give` returned last give no more."""
        at, last = self._high_next + 1, self._high_end - 1
        members = self._sorted
        members[at], members[last] = members[last], members[at]
        self._high_end = last

    def are_balanced(self) -> bool:
        """Returns whether most and least differ by one at most."""
        return self._high_size - self._low_size <= 1
