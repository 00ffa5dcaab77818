"""A consumer as a member of its group: joins, heartbeats, commits, callbacks."""
