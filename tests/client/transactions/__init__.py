"""Transactions of our producers and consumers, on our broker and on Apache Kafka."""
