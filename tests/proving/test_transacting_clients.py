"""Transactions of Java and franz-go on our broker, in versions 1 and 2 (KIP-890): the cases of
tests/interop/test_transactions.py, and what version 2 alone can do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.coordinator.transactions.states import State
from tests.broker.conftest import eventually
from tests.crash.warm import WarmBroker
from tests.interop.transacting import TRANSACTORS, Transactor
from tests.interop.transacting_children import CHILDREN, ChildTransactor, RefusedError
from tests.interop.transaction_cases import CASES, Case, Stage, is_at_rest, killed_at_every_step
from tests.proving.needed import needed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
LEVELS = 1, 2
_numbers = count()


@pytest.fixture(params=CHILDREN, ids=lambda one: one.name)
def client(request: pytest.FixtureRequest) -> type[ChildTransactor]:
    found: type[ChildTransactor] = request.param
    needed(found.child)
    return found


def readers(client: type[ChildTransactor]) -> list[type[Transactor]]:
    return [*TRANSACTORS, client]


@pytest.fixture(scope="module", params=LEVELS, ids=lambda level: f"version {level}")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker({"transaction.version": request.param}) as running:
        yield running


@pytest.fixture
def stage(client: type[ChildTransactor], broker: Broker) -> Iterator[Stage]:
    with Stage(client, broker, f"topic-{next(_numbers)}", readers(client)) as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.__name__)
def test_the_case(case: Case, stage: Stage) -> None:
    case(stage)


def entry_of(stage: Stage) -> tuple[State, int]:
    def look(server: Server) -> tuple[State, int]:
        name = f"{stage.topic}-id"
        entry = server.transaction_coordinator.shard_of(name).core.entries[name]
        return entry.state, entry.fields.producer_epoch

    return stage.broker.call(look)


def test_an_epoch_for_each_transaction(stage: Stage) -> None:
    """In version 2. A producer that is gone has left its transaction open, and its successor aborts it."""
    one = stage.open()
    for number in range(4):
        stage.write(one, b"%d" % number, commit=True)
    stage.until_all_is_over()
    level = stage.broker.call(lambda server: server.transaction_coordinator.config.transaction_version)
    assert entry_of(stage) == (State.COMPLETE_COMMIT, 4 if level == 2 else 0)
    one.begin()
    one.send(stage.topic, 0, b"left")
    assert entry_of(stage)[0] is State.ONGOING
    stage.write(stage.open(), b"4", commit=True)
    stage.until_all_is_over()
    assert stage.committed() == [b"0", b"1", b"2", b"3", b"4"]


def test_in_version_2_a_producer_goes_on_after_the_timeout(client: type[ChildTransactor]) -> None:
    """Rule T.82: it hears of it when it sends, aborts, and begins anew."""
    with Broker() as broker, Stage(client, broker, "t", readers(client)) as stage:
        slow = stage.open(timeout_ms=1000)
        slow.begin()
        slow.send("t", 0, b"late")
        eventually(lambda: is_at_rest(broker), "the transaction has timed out")
        with pytest.raises(RefusedError, match=r"(?i)epoch"):
            slow.send("t", 0, b"later")
        slow.abort()
        stage.write(slow, b"new", commit=True)
        stage.until_all_is_over()
        assert stage.committed() == [b"new"]


@pytest.mark.parametrize("level", LEVELS)
def test_killed_at_every_step(client: type[ChildTransactor], level: int, tmp_path: Path) -> None:
    """Rule T.77."""
    settings = {"transaction.state.log.num.partitions": 2, "transaction.version": level}
    with WarmBroker(tmp_path / "data", tmp_path / "log", settings) as broker:
        killed_at_every_step(client, broker, readers(client))
        assert "Traceback" not in broker.log.read_text()
