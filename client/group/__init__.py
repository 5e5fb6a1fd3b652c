"""Group membership: a pure state machine per protocol, and their driver for asyncio.

Each protocol has a room, such as `classic`; the modules beside it serve all of them.
"""
