"""Coordinator and members under virtual time: the real state machines, and a clock, a network and disks that are not.

`World` is where to begin. `Transcript` tells what happens in it, and `Invariants` checks it at every step. An
`Observer` hears of anything else.
"""

from equipoise.simulate.calls import Call
from equipoise.simulate.client import Client
from equipoise.simulate.clock import Clock
from equipoise.simulate.consumer import Consumer
from equipoise.simulate.coordinator import Coordinator
from equipoise.simulate.invariants import Invariants
from equipoise.simulate.network import Connection, Network
from equipoise.simulate.observer import Observer
from equipoise.simulate.transcript import Transcript
from equipoise.simulate.world import World

__all__ = [
    "Call",
    "Client",
    "Clock",
    "Connection",
    "Consumer",
    "Coordinator",
    "Invariants",
    "Network",
    "Observer",
    "Transcript",
    "World",
]
