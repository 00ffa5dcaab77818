"""Groups at run time: shards of the coordinator on their partitions, held heartbeats, the journal."""
