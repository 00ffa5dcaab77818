"""Apache Kafka and our broker, in turns."""
