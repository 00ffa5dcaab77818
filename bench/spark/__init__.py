"""Our source and sink, beside Spark's own connector."""
