"""What happens to groups, as one stream of events: the schema, the bus, its views."""
