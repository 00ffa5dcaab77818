"""Topics at work: partitions and their configs, fetch sessions, batches that are looked into, work due by the clock."""
