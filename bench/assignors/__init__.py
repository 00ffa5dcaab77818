"""Sticky assignments, beside kafka-python's."""
