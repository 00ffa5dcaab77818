"""Recovery of a data directory at the start: what can be trusted, what is damaged, what is missing."""
