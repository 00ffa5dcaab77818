"""Figures of a broker of ours for the page of the cluster, from what it serves for Prometheus."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families

from equipoise.wire.errors import UsageError

_PREFIX = "equipoise_broker_"
_MOST_BYTES = 1 << 20
_PATIENCE_S = 2.0


class ApiFigures(NamedTuple):
    """Requests of one API: all, those of a second if it was looked at twice, and the mean time in their handler."""

    api: str
    requests: int
    per_second: float | None
    mean_ms: float | None


class BrokerFigures(NamedTuple):
    """What a broker says of itself. None: it does not say. `problem`: why there is nothing."""

    connections: int | None = None
    memory_bytes: int | None = None
    log_bytes: int | None = None
    loop_delay_ms: float | None = None
    apis: tuple[ApiFigures, ...] = ()
    problem: str | None = None


class BrokerFiguresReader:
    """Reads the figures of one address. Rates are between two readings."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._requests: dict[str, float] = {}

    async def read(self, address: str) -> BrokerFigures:
        """The figures now; a broker that does not answer has a problem."""
        try:
            text = await asyncio.to_thread(_get, address)
            return self.take(text, time.monotonic())
        except (OSError, ValueError) as error:
            return BrokerFigures(problem=f"{address} tells nothing: {error}")

    def take(self, text: str, at: float) -> BrokerFigures:
        """The figures in a text of Prometheus's format, read at a time in seconds. ValueError: it is none."""
        samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
        plain = {one.name: one.value for one in samples if not one.labels}
        requests = _by_api(samples, "requests_total")
        counts, sums = _by_api(samples, "request_seconds_count"), _by_api(samples, "request_seconds_sum")
        rates = {} if self._at is None or at <= self._at else self._rates(requests, at - self._at)
        self._at, self._requests = at, requests
        delay = plain.get(f"{_PREFIX}loop_delay_seconds")
        return BrokerFigures(
            connections=_whole(plain.get(f"{_PREFIX}connections")),
            memory_bytes=_whole(plain.get(f"{_PREFIX}memory_bytes")),
            log_bytes=_whole(plain.get(f"{_PREFIX}log_bytes")),
            loop_delay_ms=None if delay is None else delay * 1000,
            apis=tuple(
                ApiFigures(api, int(count), rates.get(api), _mean_ms(sums.get(api), counts.get(api)))
                for api, count in sorted(requests.items(), key=lambda one: (-one[1], one[0]))
            ),
        )

    def _rates(self, requests: dict[str, float], seconds: float) -> dict[str, float]:
        """A broker that has started again counts anew."""
        return {api: max(0.0, count - self._requests.get(api, 0.0)) / seconds for api, count in requests.items()}


def check_address(address: str) -> str:
    """UsageError: it is no address of metrics."""
    if not address.startswith(("http://", "https://")):
        raise UsageError(f"--broker-metrics {address}: write an address, for instance http://127.0.0.1:9082/metrics")
    return address


def _get(address: str) -> str:
    with build_opener(ProxyHandler({})).open(address, timeout=_PATIENCE_S) as answer:
        return bytes(answer.read(_MOST_BYTES)).decode(errors="replace")


def _by_api(samples: list[Any], name: str) -> dict[str, float]:
    return {one.labels["api"]: one.value for one in samples if one.name == _PREFIX + name and "api" in one.labels}


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _mean_ms(total: float | None, count: float | None) -> float | None:
    return total * 1000 / count if total is not None and count else None
