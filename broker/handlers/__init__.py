"""Request handlers, one module per API key."""
