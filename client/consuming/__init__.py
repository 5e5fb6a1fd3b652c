"""Fetching, positions, and commits of a consumer."""
