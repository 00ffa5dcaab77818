"""Transactions at run time: shards of the coordinator on their partitions, markers, and who may append."""
