"""The asyncio client; it comes with a later release."""
