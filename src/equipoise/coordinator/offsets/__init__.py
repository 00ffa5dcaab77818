"""Committed offsets of all groups: commit, fetch, delete, expiry."""
