"""The protocol before coordinators: consumers that share partitions by ZooKeeper alone."""
