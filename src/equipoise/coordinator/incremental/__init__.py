"""Incremental rebalance for classic clients: groups that are kept as `consumer` groups, and shown as classic ones."""
