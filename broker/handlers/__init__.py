"""One module per API key: from messages of the wire to what the broker does."""
