"""Simulates groups of consumers on virtual time, determined by a seed."""
