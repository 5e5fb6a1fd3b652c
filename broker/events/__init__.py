"""The events of a broker, as one stream."""

SCHEMA_VERSION = 1
"""Version of `kohort.broker.events.schema`, here because importing that takes 5 ms."""
