"""What groups have been through, read back from `__rebalances` and `__consumer_offsets` by a Spark job."""
