"""`python -m bench consumer --listener SSL`: what the protocol costs in CPU, by our consumer and confluent-kafka."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from bench.consumer import FULL, QUICK, READERS, Reader, Size, fill, read
from bench.figures import Figure
from bench.machine import check_machine, progress
from bench.results import Results

if TYPE_CHECKING:
    from proving.secured_broker import SecuredBroker

_AIMS = {1000: 2.0}
_KEYS = ("confluent_kafka", "poll", "poll_arrow")
SECURED_READERS = [reader for reader in READERS if reader.key in _KEYS]
NOTES = (
    "One consumer reads a topic of 4 partitions from the beginning, for so many seconds or to its end, from our broker "
    "in memory, which is another process. One process serves both listeners, in turns. Each is warm: a fifth of the "
    "time is read before the clock starts.",
    "CPU seconds are those of all threads of a process, for a million records. The ratio is of the best rounds: of the "
    "broker alone, and of broker and client together.",
)


def run_secured(protocol: str, as_json: bool, quick: bool) -> None:
    """Measures for about two minutes (quick: half of one) and prints a table, or one JSON object."""
    check_machine("consumer", "pyarrow", "cryptography", "trustme")
    from bench.listeners import PLAINTEXT, SecuredMemoryBroker, add_ratios

    size = QUICK if quick else FULL
    results = Results("consumer", figures(size, protocol), NOTES, sizes=size._asdict(), listener=protocol)
    began = time.perf_counter()
    steps = len(size.records) * (size.rounds * len(SECURED_READERS) * 2 + 1)
    with SecuredMemoryBroker() as broker, progress(steps) as advance:
        for each, count in size.records.items():
            fill(broker, f"values-of-{each}", each, count)
            advance()
            for _ in range(size.rounds):
                for reader in SECURED_READERS:
                    for one in (PLAINTEXT, protocol):
                        _measure(results, reader, broker, one, each, size.seconds)
                        advance()
            for reader in SECURED_READERS:
                add_ratios(results, f"{reader.key}_{each}", protocol)
    results.print(as_json, time.perf_counter() - began)


def figures(size: Size, protocol: str) -> list[Figure]:
    from bench.listeners import cpu_figures

    return [
        figure
        for each in size.records
        for reader in SECURED_READERS
        for figure in cpu_figures(f"{reader.key}_{each}", f"{each} B, {reader.title}", "s/M", protocol, _AIMS.get(each))
    ]


def _measure(results: Results, reader: Reader, broker: SecuredBroker, protocol: str, each: int, seconds: float) -> None:
    from bench.listeners import add_cpu, client_by

    with closing(reader.open(client_by(broker, protocol), f"values-of-{each}")) as reads:
        read(reads, seconds / 5)
        server, client = broker.cpu_seconds(), time.process_time()
        count, used = 0, 0.0
        while not used:  # a short time may pass with what was fetched before it
            more = read(reads, seconds)[0]
            if not more:
                raise RuntimeError(f"{each} B: all records were read before there was anything to measure")
            count, used = count + more, broker.cpu_seconds() - server
        client = time.process_time() - client
    add_cpu(results, f"{reader.key}_{each}", protocol, used / count * 1e6, client / count * 1e6)
