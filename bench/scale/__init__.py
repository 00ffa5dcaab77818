"""What a record, a partition, a group and a member cost, as there are more of them."""
