"""Scenarios: worlds and what happens in them, as TOML files with Kafka's terms.

1. `reading` checks tables and names each mistake by its place.
2. `model` declares a scenario, and reads it.
3. `fleet` has the pods of a group, `happenings` what happens to them and to brokers.
4. `play` makes a `World` of a scenario and a seed, lets it pass, and measures it.
"""
