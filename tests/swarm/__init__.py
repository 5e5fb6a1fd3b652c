"""The swarm: random worlds, checked from outside; see `__main__`."""
