"""Consumer groups you can see, test and trust. These are the public names; each is imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.lazy import importer

if TYPE_CHECKING:
    from equipoise import errors
    from equipoise.broker import Broker
    from equipoise.client import (
        Admin,
        AsyncConsumer,
        AsyncProducer,
        Consumer,
        ConsumerGroupMetadata,
        ConsumerRecord,
        OffsetAndMetadata,
        Producer,
        RebalanceListener,
        RecordMetadata,
        SubscriptionPattern,
        TopicPartition,
    )

    __version__: str

__all__ = [
    "Admin",
    "AsyncConsumer",
    "AsyncProducer",
    "Broker",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "Producer",
    "RebalanceListener",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
    "__version__",
    "errors",
]

_load = importer(
    __name__,
    {"Broker": "equipoise.broker"} | {name: "equipoise.client" for name in __all__[:-2] if name != "Broker"},
)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("equipoise")
    if name == "errors":
        from importlib import import_module

        return import_module("equipoise.errors")
    return _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)
