"""The events of a broker, as one stream."""

SCHEMA_VERSION = 1
"""Version of `kohort.broker.events.schema`; here, as that takes 5 ms to import."""
