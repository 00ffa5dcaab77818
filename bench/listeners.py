"""A secured listener beside the plain one of the same process: our broker, and Apache Kafka where its jars are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress

from bench.figures import Figure
from bench.results import Results
from proving.brokers import STOCK_JVM, MemoryBroker, Settings
from proving.fetched import Unavailable
from proving.secured_broker import SecuredBroker, SecuredEquipoise
from proving.secured_kafka import SecuredKafka

PLAINTEXT = "PLAINTEXT"
_WAYS = {"SSL": "TLS", "SASL_SSL": "SCRAM-SHA-256"}
_PROCESSES = ("server", "client")


class SecuredMemoryBroker(SecuredEquipoise, MemoryBroker):
    """Ours without a disk."""

    name = "secured equipoise in memory"


class MeasuredKafka(SecuredKafka):
    """With the JVM's flags of Kafka's own start script."""

    def command(self) -> Sequence[str]:
        return [*self._run("kafka.Kafka", STOCK_JVM), str(self._properties)]


def started_brokers(running: ExitStack, settings: Settings) -> dict[str, SecuredBroker]:
    """By the names they have in figures, until `running` ends."""
    found: dict[str, SecuredBroker] = {"equipoise": running.enter_context(SecuredEquipoise(settings))}
    with suppress(Unavailable):
        found["kafka"] = running.enter_context(MeasuredKafka(settings))
    return found


def client_by(broker: SecuredBroker, protocol: str) -> dict[str, object]:
    """Settings of a client that comes by a listener of this protocol."""
    if protocol == PLAINTEXT:
        return {"bootstrap.servers": broker.bootstrap_servers}
    return broker.client(_WAYS[protocol])


def cpu_figures(key: str, title: str, unit: str, protocol: str, aim: float | None = None) -> list[Figure]:
    """CPU of broker and client by both listeners, and the ratios."""
    return [
        *(
            Figure(f"{key}_{process}_cpu_{each.lower()}", f"{title}, {process} CPU, {each}", unit)
            for process in _PROCESSES
            for each in (PLAINTEXT, protocol)
        ),
        Figure(f"{key}_server_ratio", f"{title}, server CPU, {protocol} to {PLAINTEXT}", "ratio", aim),
        Figure(f"{key}_total_ratio", f"{title}, CPU of both, {protocol} to {PLAINTEXT}", "ratio", aim),
    ]


def add_cpu(results: Results, key: str, protocol: str, server: float, client: float) -> None:
    """What one round has cost."""
    for process, value in zip(_PROCESSES, (server, client), strict=True):
        results.add(f"{key}_{process}_cpu_{protocol.lower()}", value)


def add_ratios(results: Results, key: str, protocol: str) -> None:
    """Of the best rounds."""
    plain, secured = (
        [min(results.values(f"{key}_{process}_cpu_{each.lower()}")) for process in _PROCESSES]
        for each in (PLAINTEXT, protocol)
    )
    results.add(f"{key}_server_ratio", secured[0] / plain[0])
    results.add(f"{key}_total_ratio", sum(secured) / sum(plain))
