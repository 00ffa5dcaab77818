"""`--listener`: a very short run beside plain text, and the ratios."""

from __future__ import annotations

import json
import sys

import pytest

from bench import consumer
from bench.broker import secured
from bench.listeners import add_cpu, add_ratios, cpu_figures
from bench.results import Results
from tests.commands import Command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bench reads process clocks of Linux")


def test_ratios_are_of_the_best_rounds() -> None:
    results = Results("broker", cpu_figures("fetch", "fetch", "ms/MB", "SSL", 2.0), ())
    for protocol, server, client in (("PLAINTEXT", 2.0, 3.0), ("PLAINTEXT", 1.0, 4.0), ("SSL", 3.0, 5.0)):
        add_cpu(results, "fetch", protocol, server, client)
    add_ratios(results, "fetch", "SSL")
    assert results.values("fetch_server_ratio") == [3.0]
    assert results.values("fetch_total_ratio") == [2.0]


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_the_broker_by_both_listeners(command: Command, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    monkeypatch.setattr("bench.listeners.MeasuredKafka", _unavailable)
    for name, value in (("WARM_UPS", 0), ("ROUNDS", 1), ("LOAD_SECONDS", 0.05)):
        monkeypatch.setattr(secured, name, value)
    document = json.loads(command("broker", "--json", "--listener", protocol).out)
    assert document["listener"] == protocol
    figures = [secured.ENCRYPTION, secured.DECRYPTION, *secured.figures(["equipoise"], protocol)]
    assert list(document["figures"]) == [figure.key for figure in figures]
    assert all(values["best"] > 0 for values in document["figures"].values())


def _unavailable(settings: object) -> None:
    from proving.fetched import Unavailable

    raise Unavailable("no jars")


def test_the_consumer_by_both_listeners(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.secured_consumer.QUICK", consumer.Size(1, 0.05, {1000: 80_000}))
    document = json.loads(command("consumer", "--json", "--quick", "--listener", "SSL").out)
    assert len(document["figures"]) == 18
    assert all(values["best"] > 0 for values in document["figures"].values())
