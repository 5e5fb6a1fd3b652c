"""Shards: from a group's id to its coordinator.

1. `hash.partition_of` maps the group id to a partition of ``__consumer_offsets``.
2. `shards.Shards` finds the `shard.Shard` of that partition, and its leader's node.
3. The leader's `shard.Shard` loads the groups through `loader.Loader`, and then runs
   their coordinator with a `driver.GroupDriver`; from then on, each change of a group
   is a record (`group_records`) in the partition.
4. If another node becomes leader, the shard unloads the coordinator, which refuses the
   requests that wait for it, and loads the groups again.
"""
