"""The transaction coordinator: its rules, one by one, on the pure core."""
