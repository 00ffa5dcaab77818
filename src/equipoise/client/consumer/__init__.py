"""The consumers: blocking and for asyncio, on one engine."""
