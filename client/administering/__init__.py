"""Calls of the admin client."""
