"""Watches groups on any cluster, on asyncio: from the journal, from `__consumer_offsets`, or by questions alone."""
