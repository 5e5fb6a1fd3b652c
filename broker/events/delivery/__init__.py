"""The account of delivery: what became of the records that a group was sent.

Pure: its input are events, and notes of the fetches of clients
(`kohort.broker.events.delivery.notes`). The evidence, from the weakest to the
strongest:

1. *Sent*: a response with the record was written. Nobody may have read it.
2. *Received*: the same reader has asked for a later offset, or its connection has sent
   another request, or the reader stopped and had read it: its connection was not
   reset. Clients fetch ahead, so the application may not have seen it.
3. *Handled*: the group has committed an offset above it, or tried to.
4. *Given back*: the reader committed when it gave the partition up. What it had
   received from there on it declares as not handled.

The flow, step by step:

1. A reader is a connection. `Deliveries` finds the member behind it: the one that
   joined on this connection, or else the owner of the partition with the same client id
   and host. If several groups qualify, or another connection of the member reads the
   partition elsewhere, it is an unknown reader.
2. A member's reading of a partition, from the first offset that it asks for, is a
   `Passage`. It ends when the member no longer reads the partition (`Release`).
3. Each passage is compared with what the group had received before: `again`. Records
   that no member received, below the start of a passage, are `skipped`.
4. A commit below the committed offset `went back`.
"""

from __future__ import annotations

from kohort.broker.events.delivery.account import Deliveries, GroupDelivery
from kohort.broker.events.delivery.values import Again, Delivery, Skipped, WentBack

__all__ = ["Again", "Deliveries", "Delivery", "GroupDelivery", "Skipped", "WentBack"]
