"""A member of a classic group: JoinGroup, SyncGroup and Heartbeat, with the assignment made by the group's leader."""
