"""Readers of the stream that the broker runs itself: a file, a topic."""
