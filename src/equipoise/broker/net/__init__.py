"""Connections of clients: frames, requests in their order, replies that wait, bounds on memory and time."""
