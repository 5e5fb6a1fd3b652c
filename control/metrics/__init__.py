"""Metrics of a broker: counted as things happen, read on request."""
