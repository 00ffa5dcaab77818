"""What is known of groups and clusters, as values: pure functions of what sources have seen."""
