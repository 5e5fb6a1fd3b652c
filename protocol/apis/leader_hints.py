"""Hints of the new leader in the responses of Produce and Fetch (KIP-951)."""

from kohort.protocol.fields import Int32, String
from kohort.protocol.slotted import slotted


@slotted
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@slotted
class NodeEndpoint:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
