"""The client's side of the wire: connections, and the administration of topics."""

from equipoise.client.admin import Admin
from equipoise.client.connection import Connection, KafkaConnectionError

__all__ = ["Admin", "Connection", "KafkaConnectionError"]
