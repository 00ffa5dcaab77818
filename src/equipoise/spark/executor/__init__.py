"""What tasks do on executors: read ranges from leaders, decode them into Arrow columns."""
