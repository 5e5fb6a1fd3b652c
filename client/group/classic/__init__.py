"""The member's side of the classic protocol: JoinGroup, SyncGroup, Heartbeat."""
