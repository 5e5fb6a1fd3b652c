"""kohort: a Kafka broker for testing consumer groups."""
