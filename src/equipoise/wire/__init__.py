"""Kafka's bytes: messages, record batches, error codes. Knows no socket, no clock, no disk."""
