"""What every client with transactions goes through on our broker: commit, abort, fencing, time-out, kills."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Timer
from typing import Self

import pytest

from equipoise.broker import Broker
from equipoise.coordinator.transactions.states import AT_REST
from tests.broker.calls import create_topic
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.crash.warm import WarmBroker
from tests.interop.transacting import COMMITTED, UNCOMMITTED, Transactor

PARTITIONS = 2
LONGEST_END_S = 0.03


@dataclass
class Stage:
    """A client on a broker, and the others, which read what it has written."""

    client: type[Transactor]
    broker: Broker
    topic: str
    readers: Sequence[type[Transactor]]
    opened: ExitStack = field(default_factory=ExitStack)

    def open(self, **options: int) -> Transactor:
        """A producer with the stage's only id, closed in the end."""
        one = self.client(self.broker.bootstrap_servers, f"{self.topic}-id", **options)
        self.opened.callback(one.close)
        return one

    def write(self, one: Transactor, value: bytes, *, commit: bool) -> None:
        one.begin()
        for partition in range(PARTITIONS):
            one.send(self.topic, partition, value)
        (one.commit if commit else one.abort)()

    def until_all_is_over(self) -> None:
        eventually(lambda: is_at_rest(self.broker), "all transactions are over")

    def committed(self, partition: int = 0) -> list[bytes]:
        """The same for every reader."""
        found = [self._read(one, partition, COMMITTED) for one in self.readers]
        assert all(values == found[0] for values in found), dict(zip(self.readers, found, strict=True))
        return found[0]

    def written(self) -> list[bytes]:
        return self._read(self.client, 0, UNCOMMITTED)

    def _read(self, reader: type[Transactor], partition: int, level: str) -> list[bytes]:
        return reader.read(self.broker.bootstrap_servers, self.topic, partition, level)

    def __enter__(self) -> Self:
        with RawClient(self.broker.bootstrap_servers) as raw:
            create_topic(raw, self.topic, PARTITIONS)
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()


def is_at_rest(broker: Broker) -> bool:
    """Whether every transaction is over: its markers can be read."""
    return broker.call(
        lambda server: all(
            entry.state in AT_REST and entry.pending is None
            for core in server.transaction_coordinator.opened
            for entry in core.entries.values()
        )
    )


def committed_records_are_read_and_aborted_ones_are_not(stage: Stage) -> None:
    one = stage.open()
    for number in range(6):
        stage.write(one, b"%d" % number, commit=number % 3 != 2)
    stage.until_all_is_over()
    for partition in range(PARTITIONS):
        assert stage.committed(partition) == [b"0", b"1", b"3", b"4"]
    assert stage.written() == [b"%d" % number for number in range(6)]


def a_second_instance_fences_the_first(stage: Stage) -> None:
    """Scenarios 33 and 34: what the first has open is aborted, and it can commit no more."""
    first = stage.open()
    first.begin()
    first.send(stage.topic, 0, b"zombie")
    second = stage.open()
    with pytest.raises(Exception, match=r"(?i)fence|epoch|newer"):
        first.commit()
    stage.write(second, b"new", commit=True)
    stage.until_all_is_over()
    assert stage.committed() == [b"new"]


def a_transaction_that_times_out_is_aborted(stage: Stage) -> None:
    """Scenario 30: who commits too late hears it, and its successor goes on."""
    slow = stage.open(timeout_ms=1000)
    slow.begin()
    slow.send(stage.topic, 0, b"late")
    stage.until_all_is_over()
    with pytest.raises(Exception, match=r"(?i)fence|epoch|newer|state"):
        slow.commit()
    stage.write(stage.open(), b"new", commit=True)
    stage.until_all_is_over()
    assert stage.committed() == [b"new"]


Case = Callable[[Stage], None]
CASES: list[Case] = [
    committed_records_are_read_and_aborted_ones_are_not,
    a_second_instance_fences_the_first,
    a_transaction_that_times_out_is_aborted,
]

STEPS = "init", "begin", "half", "sent", "commit", "abort", "in commit", "in abort", "in commit", "in commit"
"""After which call the broker is killed; `in`: while the client waits for the answer."""


def killed_at_every_step(client: type[Transactor], broker: WarmBroker, readers: Sequence[type[Transactor]]) -> None:
    """One producer survives all kills: what it was told to be committed is there, and nothing else."""
    with RawClient(broker.address) as raw:
        create_topic(raw, "t", PARTITIONS)
    one, chance = client(broker.address, "id"), random.Random()
    for number, step in enumerate(STEPS):
        _transact(one, broker, step, b"%d" % number, pause=chance.uniform(0, LONGEST_END_S))
    one.close()
    client(broker.address, "id").close()  # answered when the last transaction is over
    wanted = [b"%d" % number for number, step in enumerate(STEPS) if not step.endswith("abort")]
    for partition in range(PARTITIONS):
        for reader in readers:
            assert reader.read(broker.address, "t", partition, COMMITTED) == wanted, reader.name


def _transact(one: Transactor, broker: WarmBroker, step: str, value: bytes, *, pause: float) -> None:
    def passed(moment: str) -> None:
        if moment == step:
            _restart(broker)

    passed("init")
    one.begin()
    passed("begin")
    one.send("t", 0, value)
    passed("half")
    one.send("t", 1, value)
    passed("sent")
    end = one.abort if step.endswith("abort") else one.commit
    if step.startswith("in "):
        _restart_during(broker, end, pause)
    else:
        end()
    passed("abort")
    passed("commit")


def _restart(broker: WarmBroker) -> None:
    broker.kill()
    broker.start()


def _restart_during(broker: WarmBroker, end: Callable[[], None], pause: float) -> None:
    killer = Timer(pause, _restart, [broker])
    killer.start()
    try:
        end()
    finally:
        killer.join()
