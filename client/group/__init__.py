"""Group membership: a pure state machine, and its driver for asyncio."""
