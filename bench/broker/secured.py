"""`python -m bench broker --listener SSL`: what the protocol costs in CPU, on our broker and on Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from bench.broker.figures import PARTITIONS, SIZES
from bench.figures import Figure
from bench.machine import Advance, check_machine, progress
from bench.results import Results
from equipoise.client import Admin

if TYPE_CHECKING:
    from proving.secured_broker import SecuredBroker

WARM_UPS = 2  # unmeasured, for the JVM
ROUNDS = 3
LOAD_SECONDS = 1.2
_AIMS = {("fetch", 1024): 2.0}
ENCRYPTION = Figure("encryption_alone_cpu", "encryption alone, CPU", "ms/MB")
DECRYPTION = Figure("decryption_alone_cpu", "decryption alone of TLS records as librdkafka writes them, CPU", "ms/MB")
NOTES = (
    "One process serves both listeners, in turns. confluent-kafka produces with acks=all, then reads from the "
    "beginning. CPU is that of all threads of a process; 1 MB is 10^6 bytes of record values. Handshake and login are "
    "over before the clock starts.",
    "The ratio is of the best rounds: of the broker alone, and of broker and client together.",
    "Encryption alone is what OpenSSL takes from any program on this machine, by Python's ssl and in memory; so is "
    "decryption alone. A broker whose plain listener takes less than that cannot keep to twice its CPU.",
    f"Equipoise makes records durable before they are acknowledged; Kafka does not. {WARM_UPS} unmeasured rounds of "
    "the same load go first.",
)


def run_secured(protocol: str, as_json: bool) -> None:
    """Measures for about two minutes and prints a table, or one JSON object."""
    check_machine("broker", "cryptography", "trustme")
    from bench.encryption import decrypt_alone, encrypt_alone
    from bench.listeners import PLAINTEXT, add_ratios, started_brokers

    began = time.perf_counter()
    with ExitStack() as running:
        brokers = started_brokers(running, {"num.partitions": PARTITIONS})
        results = Results("broker", [ENCRYPTION, DECRYPTION, *figures(brokers, protocol)], NOTES, listener=protocol)
        with progress((WARM_UPS + ROUNDS) * len(brokers) * len(SIZES) * 2) as advance:
            for number in range(-WARM_UPS, ROUNDS):
                results.add(ENCRYPTION.key, encrypt_alone())
                results.add(DECRYPTION.key, decrypt_alone())
                for name, broker in brokers.items():
                    for each in (PLAINTEXT, protocol):
                        _measure_round(results, name, broker, each, number, advance)
    for key in (_key(what, size, name) for name in brokers for what in ("produce", "fetch") for size in SIZES):
        add_ratios(results, key, protocol)
    results.print(as_json, time.perf_counter() - began)


def _key(what: str, size: int, name: str) -> str:
    return f"{what}_{size}_bytes_{name}"


def figures(names: Iterable[str], protocol: str) -> list[Figure]:
    from bench.listeners import cpu_figures

    return [
        figure
        for name in names
        for what in ("produce", "fetch")
        for size, title in SIZES.items()
        for figure in cpu_figures(
            _key(what, size, name), f"{what} {title}, {name}", "ms/MB", protocol, _AIMS.get((what, size))
        )
    ]


def _measure_round(
    results: Results, name: str, broker: SecuredBroker, protocol: str, number: int, advance: Advance
) -> None:
    """A round with a number below 0 is not counted."""
    from bench.broker.load import fetch, produce
    from bench.listeners import add_cpu, client_by

    client = client_by(broker, protocol)
    for size in SIZES:
        topic = f"bench-{size}-{protocol}-{number + WARM_UPS}"
        for what, sample in (
            ("produce", produce(broker, topic, size, LOAD_SECONDS, client)),
            ("fetch", fetch(broker, topic, LOAD_SECONDS, client)),
        ):
            if number >= 0:
                key = _key(what, size, name)
                add_cpu(results, key, protocol, sample.server_ms_per_mb, sample.client_ms_per_mb)
        with Admin(broker.bootstrap_servers) as admin:
            admin.delete_topic(topic)
        advance()
