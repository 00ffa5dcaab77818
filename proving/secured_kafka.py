"""Apache Kafka behind TLS and SASL.

with SecuredKafka() as kafka:
    Consumer(kafka.client("SCRAM-SHA-512") | {"group.id": "billing"})
"""

from __future__ import annotations

from proving.brokers import KafkaBroker
from proving.secured_broker import MECHANISMS, PASSWORD, USER, SecuredBroker

__all__ = ["MECHANISMS", "PASSWORD", "USER", "SecuredKafka"]


class SecuredKafka(SecuredBroker, KafkaBroker):
    name = "secured kafka"

    def format_log(self) -> list[str]:
        command = super().format_log()
        self.write_certificates()
        return command + self.scram_users()

    def _all_settings(self) -> dict[str, object]:
        settings = super()._all_settings()
        settings |= self.secured_settings(str(settings["listeners"]))
        return settings | {"listener.security.protocol.map": self.protocols("PLAINTEXT", "CONTROLLER"), **self.settings}
