"""Kafka's bytes: messages, record batches, error codes. This package knows no socket, clock or disk."""
