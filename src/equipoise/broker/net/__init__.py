"""Connections of clients: frames, requests in order, delayed replies, bounds on memory and time."""
