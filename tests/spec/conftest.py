"""Brokers for what only a handler knows: the fixtures of tests/broker."""

from __future__ import annotations

from tests.broker.conftest import _no_request_failed, client, connect, start

__all__ = ["_no_request_failed", "client", "connect", "start"]
