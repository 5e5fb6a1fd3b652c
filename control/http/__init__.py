"""HTTP on a port of the broker: the server, its guard, its routes."""
