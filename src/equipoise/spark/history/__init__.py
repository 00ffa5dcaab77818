"""The history of groups, read from `__rebalances` and `__consumer_offsets` by a Spark job."""
