"""Groups of the consumer protocol: the coordinator assigns, members follow (KIP-848).

One rebalance through the files: ana has both partitions of a topic in a Stable group of
epoch 2, and ben joins.

1. ben's ConsumerGroupHeartbeat has epoch 0. `heartbeat` finds the group and begins a
   `changes.Change`. Each record that it puts takes effect at once
   (`group.ConsumerGroup.replay`), and all of them are written together at the end.
2. ben is a new member with a subscription, so `subscription.subscribe` bumps the group
   epoch to 3: Assigning.
3. The target assignment is older than the group, and due: `target.compute` has an
   assignor (`assignors`) divide the partitions. Reconciling.
4. `reconcile.reconcile` takes ben's step to the target. ana holds ben's partition, so
   ben gets epoch 3 and no partition: UNRELEASED_PARTITIONS.
5. ana's next heartbeat is in epoch 2. `reconcile` takes a partition from ana's
   assignment: UNREVOKED_PARTITIONS. ana has the rebalance timeout to give it up, by the
   timer ("revoke", group, member), or is removed (`leave.revocation_expired`).
6. ana's heartbeat shows that ana no longer owns it. ana goes to epoch 3: STABLE.
7. ben's next heartbeat gets the partition: STABLE, and so is the group.

A new epoch also begins when members leave, expire or are removed (`leave`), when topics
change (`subscription.topics_changed`, `topics_hash`), and when a pattern of topics
matches others (`patterns`, `regex`). Nearly all heartbeats change nothing
(`heartbeat.hear`).

`sessions` has the signs of life, `restore` makes a group from its records and follows
up on changes that the log refused, `powers` has the commands of tests, and `room`
declares all of this to the coordinator.
"""
