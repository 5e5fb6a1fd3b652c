"""Groups whose members move from one protocol to the other, one by one (KIP-848).

It is the only folder, beside the coordinator, that knows both protocols:
``group.consumer.migration.policy`` says which ways are open.

1. `upgrade`: the first heartbeat of a consumer to a classic group with members makes it
   a consumer group in the same turn. Its members keep their assignments; waiting joins
   and syncs are answered REBALANCE_IN_PROGRESS.
2. Its classic members go on with their protocol (`heartbeat`, `join`, `sync`, `leave`):
   the coordinator answers in place of a leader. A heartbeat tells them when to join
   again, the join takes the member's step to the target assignment, and the sync brings
   its partitions. `timers` removes those that do not join or sync in time.
3. A member that comes back with the consumer protocol, under its old id or as the same
   static member, is no classic member any more.
4. `downgrade`: when the last members of the consumer protocol leave or expire, or the
   last one comes back as a classic static member (`join`), the group becomes a classic
   one. It rebalances, unless nothing has changed.
"""
