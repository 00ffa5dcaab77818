"""Incremental rebalance of classic groups. Rule C."""
