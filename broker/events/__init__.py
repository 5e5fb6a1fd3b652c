"""What happens in a broker, as one stream of events."""

SCHEMA_VERSION = 1
"""Of `kohort.broker.events.schema`; here, because that takes 5 ms to import."""
