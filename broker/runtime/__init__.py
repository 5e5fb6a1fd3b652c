"""The runtime of coordinators: what those of groups and of transactions share.

A coordinator is a pure state machine. Its part of the runtime is pure, too:

- `machine.Machine`: the base class. Hands events to functions, finishes or undoes
  appends, and checks from time to time for what has expired.
- `turn.MachineTurn` collects the effects of one event; `appends` has what waits for the
  log; `events` and `effects` are those that all coordinators have.

The rest performs:

1. `shards.Shards` finds the `shard.Shard` of an id, a partition of the coordinator's
   topic.
2. The shard of the partition's leader reads the log through `loader.Loader`, and starts
   a `driver.Driver`. If another node becomes leader, it stops the driver, refuses the
   requests that wait, and reads the log again.
3. The driver hands events to the coordinator and performs the effects: writes appends
   to the partition, sets `timers`, publishes notices, answers requests.

A coordinator adds a machine, its records as bytes, and a subclass of `Shard` that
declares both; `kohort.broker.shards` has those of groups and transactions.
"""
