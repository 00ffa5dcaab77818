"""Who has which partition: the target of a group, its epochs, and the steps of each member towards its target."""
