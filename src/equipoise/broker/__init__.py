"""The broker: sockets to log and coordinator, with one handler file per API key."""

from equipoise.broker.running import Broker, serve

__all__ = ["Broker", "serve"]
