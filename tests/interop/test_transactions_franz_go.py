"""franz-go transacts on our broker, with an epoch for each transaction (transaction version 2), and reads it."""

from __future__ import annotations

import subprocess

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.coordinator.transactions.states import State
from proving.members.foreign import go_programs
from tests.interop.transacting import COMMITTED, ConfluentTransactor
from tests.proving.needed import needed

COUNT = 12
VALUES = [str(number) for number in range(COUNT) if number % 3 != 2]


def transact(broker: Broker, count: int) -> list[str]:
    program = str(needed(go_programs) / "transact")
    arguments = [program, broker.bootstrap_servers, "t", "franz", str(count)]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


def entry_of(server: Server) -> tuple[State, int]:
    entry = server.transaction_coordinator.shard_of("franz").core.entries["franz"]
    return entry.state, entry.fields.producer_epoch


@pytest.mark.parametrize("level", [1, 2])
def test_franz_go_transacts(level: int) -> None:
    with Broker({"transaction.version": level}, topics={"t": 1}) as broker:
        assert transact(broker, COUNT) == VALUES
        state, epoch = broker.call(entry_of)
        assert state in (State.COMPLETE_ABORT, State.PREPARE_ABORT)
        assert epoch == (COUNT if level == 2 else 0)
        transact(broker, 0)  # it ends in the middle of a transaction
        assert broker.call(entry_of)[0] is State.ONGOING
        transact(broker, 1)  # its successor aborts it
        read = ConfluentTransactor.read(broker.bootstrap_servers, "t", 0, COMMITTED)
        assert [value.decode() for value in read] == [*VALUES, "0"]
