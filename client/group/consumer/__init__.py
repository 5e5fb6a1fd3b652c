"""The consumer group protocol: members that the coordinator assigns to (KIP-848)."""
