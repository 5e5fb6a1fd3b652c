"""Connections to brokers, and the cluster as they describe it."""
