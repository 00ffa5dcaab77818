"""What a start finds in a data directory: what can be trusted, what is damaged, what is missing."""
