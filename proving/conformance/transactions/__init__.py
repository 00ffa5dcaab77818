"""Transactions beside Apache Kafka: the same scripts, every answer and all that can be seen afterwards compared."""
