"""Differential conformance: the same group requests put to Apache Kafka and to us, answers compared field by field."""
