"""The sink: options, rows to records, writing on executors."""
