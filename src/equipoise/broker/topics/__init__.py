"""Topics at run time: partitions and their configs, fetch sessions, batches to validate."""
