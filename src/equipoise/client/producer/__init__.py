"""Producers: records to the leaders of their partitions, each stored once and in order."""
