"""Consumers on ZooKeeper alone, as before coordinators: a tree in memory, virtual time, chance by a seed."""
