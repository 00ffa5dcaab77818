"""The source of a query, in the driver: membership, offsets, batches, commits."""
