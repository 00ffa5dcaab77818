"""The broker: sockets to log (and, later, to the coordinator), one handler file per API key."""

from equipoise.broker.running import Broker, serve

__all__ = ["Broker", "serve"]
