"""The first batch of a streaming query, beside Spark's own connector, and its timeline."""
