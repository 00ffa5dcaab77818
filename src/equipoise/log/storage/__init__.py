"""Where a log lies: files or memory, their descriptors, durability, and what the system refuses."""
