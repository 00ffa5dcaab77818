"""The same changes of a group under four protocols, from ZooKeeper to cooperative."""
