"""Several brokers in one process, for tests of failover: which broker leads which partition, and what becomes of it
when a broker stops, is killed or is back. There is one log on one disk, and no replication."""
