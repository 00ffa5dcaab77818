"""The group's side of a consumer group. Pure: no clock, no sockets, no threads, no randomness.

A request or a tick goes in with `now`; a `Step` comes out: replies, records to write, events. Same state,
same input, same output.
"""
