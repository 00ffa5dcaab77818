"""Fetching ahead of the application: positions, sessions, completed fetches, records and columns."""
