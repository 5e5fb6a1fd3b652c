"""The assignors of Kafka's consumer, pure; see `contract` for their arguments.

They assign as kafka-clients 4.3 does, with three exceptions where the Java client
would do harm: a member without topics gets no partitions, deleted or missing
partitions are not assigned, and no partition returns to a member that has
unsubscribed from its topic.
"""

from kohort.client.assignors.contract import Assignor
from kohort.client.assignors.cooperative import CooperativeStickyAssignor
from kohort.client.assignors.range import RangeAssignor
from kohort.client.assignors.roundrobin import RoundRobinAssignor
from kohort.client.assignors.sticky import StickyAssignor

ASSIGNORS: dict[str, Assignor] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        CooperativeStickyAssignor(),
    )
}
"""By their names in `partition.assignment.strategy`."""
