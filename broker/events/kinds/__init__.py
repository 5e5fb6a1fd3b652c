"""Kinds of events, by subject; `kohort.broker.events.schema` has all of them."""
