"""Nodes, leaders, changes of topics, the topic of events, the data directory."""
