"""The records of a `consumer` group: how they are built, and how they take effect."""
