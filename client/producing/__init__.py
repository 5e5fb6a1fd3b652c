"""Batching and delivery of a producer."""
