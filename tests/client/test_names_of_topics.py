"""A name that no topic can have is refused at once, and the producer goes on with others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from equipoise import AsyncProducer, Broker, Producer
from equipoise.wire.errors import UsageError

NO_NAMES: list[Any] = ["\udcff", "a b", "", "..", 5, None, b"orders", "x" * 250]
names = pytest.mark.parametrize("name", NO_NAMES, ids=range(len(NO_NAMES)))


@names
def test_other_topics_are_still_found(broker: Broker, name: Any) -> None:
    """Once it was asked for, each later question for metadata had this name in it, and could not be sent."""
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        with pytest.raises(UsageError, match="is no topic: names have 1 to 249"):
            producer.send(name, b"lost")
        producer.send("orders", b"stored")
    assert broker.topics["orders"].end_offsets == [1]


@names
def test_so_with_the_asynchronous_one(broker: Broker, name: Any) -> None:
    async def send() -> None:
        async with AsyncProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            with pytest.raises(UsageError, match="is no topic: names have 1 to 249"):
                await producer.send(name, b"lost")
            await producer.send("orders", b"stored")

    asyncio.run(send())
    assert broker.topics["orders"].end_offsets == [1]
