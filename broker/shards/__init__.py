"""Shards of groups and of transactions, on `kohort.broker.runtime`.

The runtime finds, loads, moves and drives coordinators. Here is what each kind adds:

| | of groups | of transactions |
| --- | --- | --- |
| which id an event has, how it is refused | `group_shards` | `transaction_shards` |
| state machine and records of a shard | `group_shard` | `transaction_shard` |
| effects and short ways | `group_driver` | `transaction_driver` |
| records as bytes, and back | `group_records` | `transaction_records` |

Groups alone have members' connections (`disconnections`), heartbeats credited while the
clock is moved ahead (`credit`), and requests that a new cluster of Kafka refuses
(`first_use`).
"""
