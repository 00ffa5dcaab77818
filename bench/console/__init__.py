"""Figures and pictures of the web console: a told group of 100 partitions and 50 members, drawn in a real browser."""
