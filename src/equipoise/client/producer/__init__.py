"""Producers: send records to the leaders of their partitions, which store each record once and in order."""
