"""A very large group with the consumer protocol, on raw connections."""
