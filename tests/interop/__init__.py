"""Kafka's own clients against our broker, over real sockets."""
