"""Transactions of foreign clients on our broker: commit, abort, fencing, time-out, kills; each reads what all have
written. tests/proving/test_transacting_clients.py has Java and franz-go."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from equipoise.broker import Broker
from tests.crash.warm import WarmBroker
from tests.interop.transacting import TRANSACTORS, Transactor
from tests.interop.transaction_cases import CASES, Case, Stage, killed_at_every_step

CLIENTS = pytest.mark.parametrize("client", TRANSACTORS, ids=lambda one: one.name)
_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@CLIENTS
@pytest.mark.parametrize("case", CASES, ids=lambda one: one.__name__)
def test_the_case(client: type[Transactor], broker: Broker, case: Case) -> None:
    with Stage(client, broker, f"topic-{next(_numbers)}", TRANSACTORS) as stage:
        case(stage)


@CLIENTS
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # sockets of kafka-python that could not connect
def test_killed_at_every_step(client: type[Transactor], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Rule T.77."""
    caplog.set_level(logging.CRITICAL + 1, logger="kafka")  # its records would hold its sockets
    with WarmBroker(tmp_path / "data", tmp_path / "log", {"transaction.state.log.num.partitions": 2}) as broker:
        killed_at_every_step(client, broker, TRANSACTORS)
        assert "Traceback" not in broker.log.read_text()
    gc.collect()  # while the warning is ignored


def test_transactions_of_all_clients_in_one_partition(broker: Broker) -> None:
    """Scenario 17: who commits first is read when the older ones are over."""
    with Stage(TRANSACTORS[0], broker, f"topic-{next(_numbers)}", TRANSACTORS) as stage:
        ones = [client(broker.bootstrap_servers, f"{stage.topic}-{client.name}") for client in TRANSACTORS]
        for one in ones:
            stage.opened.callback(one.close)
            one.begin()
            one.send(stage.topic, 0, one.name.encode())
        ones[1].commit()
        assert stage.committed() == []
        ones[2].abort()
        ones[0].commit()
        stage.until_all_is_over()
        assert stage.committed() == [ones[0].name.encode(), ones[1].name.encode()]
