"""Where brokers listen: HOST:PORT, as settings and messages write it."""

from __future__ import annotations

from equipoise.settings import is_host
from equipoise.wire.errors import UsageError
from equipoise.wire.text import printable

Address = tuple[str, int]


def address_of(host: str, port: int) -> str:
    """For messages: a host may be what a broker says of another."""
    host = printable(host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_bootstrap_servers(text: str) -> list[Address]:
    """HOST:PORT, one or more with commas; an IPv6 host in brackets."""
    addresses = []
    for part in text.split(","):
        if "://" in part:
            protocol, _, address = part.strip().partition("://")
            raise UsageError(f"{part!r} is no server: write {address}, and set security.protocol={protocol}")
        host, separator, port = part.strip().rpartition(":")
        if not separator or not is_host(host) or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"{part!r} is no server: write HOST:PORT, for instance 127.0.0.1:9092")
        addresses.append((host.strip("[]"), int(port)))
    return addresses
