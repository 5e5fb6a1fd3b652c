"""Partitions of topics: appending, reading, waiting for records."""
