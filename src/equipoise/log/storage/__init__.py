"""The media of a log: files or memory, their descriptors, durability, and refusals of the system."""
