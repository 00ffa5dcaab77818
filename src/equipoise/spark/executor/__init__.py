"""Tasks on executors: read offset ranges from leaders, and decode them into Arrow columns."""
