"""Classic members inside `consumer` groups (guests): their requests, their bytes, and groups that change their kind."""
