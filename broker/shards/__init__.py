"""Shards of groups and of transactions, on `kohort.broker.runtime`.

The runtime finds, loads, moves and drives coordinators. Here is what each kind adds:

| | of groups | of transactions |
| --- | --- | --- |
| the declaration | `group_shards` | `transaction_shards` |
| records as bytes, and back | `group_records` | `transaction_records` |
| effects and short ways | `group_driver` | `transaction_driver` |
| what a shard has besides | `group_shard` | |

Groups alone have members' connections (`disconnections`), heartbeats credited while the
clock is moved ahead (`credit`), and requests that a new cluster of Kafka refuses
(`first_use`).
"""
