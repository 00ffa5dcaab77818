"""Groups at work: shards of the coordinator on their partitions, held heartbeats, the journal."""
