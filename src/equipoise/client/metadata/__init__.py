"""The cluster as its brokers describe it: leaders, epochs, offsets by time."""
