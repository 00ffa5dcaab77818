"""A producer's side of transactions: states and verdicts, which are pure, and the requests to the coordinators."""
