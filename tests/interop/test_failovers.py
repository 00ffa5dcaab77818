"""Real clients in groups on three brokers of ours, while their coordinator is killed, stopped and moved: no record and
no commit that was acknowledged is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from proving.equipoise_cluster import EquipoiseCluster
from proving.fetched import Unavailable
from proving.members.hosts import CONSUMER
from proving.trials.failovers import CLIENTS, SPARK, Outcome, groups_through_failovers

# Of groups that rebalance member by member the targets, epochs and partitions are in the log.
PYTHON = (
    *("equipoise", "confluent-kafka", "kafka-python", "aiokafka"),
    *("equipoise/cooperative-sticky", "confluent-kafka/cooperative-sticky"),
    *(f"equipoise/{CONSUMER}", f"confluent-kafka/{CONSUMER}"),
)
_FEW, _MANY = 3, 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[EquipoiseCluster]:
    with EquipoiseCluster() as running:
        yield running


def play(cluster: EquipoiseCluster, log: Path, clients: Sequence[str], failovers: int, **options: Any) -> Outcome:
    """A missing client is a skip, or with EQUIPOISE_REQUIRE_CLIENTS=1, as in CI, a failure."""
    try:
        return groups_through_failovers(cluster, log, clients=clients, failovers=failovers, **options)
    except Unavailable as missing:
        if os.environ.get("EQUIPOISE_REQUIRE_CLIENTS") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def check(outcome: Outcome, clients: Sequence[str], failovers: int) -> None:
    assert [account.reader for account in outcome.accounts] == ["(in the log)", *clients]
    assert all(account.acknowledged > 0 for account in outcome.accounts)
    assert {account.reader: account.lost for account in outcome.accounts if account.lost} == {}
    assert outcome.accounts[0].repeated == 0  # idempotence: the writer's retries are stored once
    assert {pauses.group: len(pauses.seconds) for pauses in outcome.pauses} == dict.fromkeys(clients, failovers)
    assert outcome.commits > 0


@pytest.mark.parametrize(
    ("clients", "failovers"),
    [(PYTHON, _FEW), (("java",), _FEW), (("kafkajs",), 1), ((SPARK,), _FEW)],
    ids=["python", "java", "kafkajs", SPARK],
)
def test_a_few_failovers(cluster: EquipoiseCluster, tmp_path: Path, clients: Sequence[str], failovers: int) -> None:
    """A kill, a stop and a move. kafkajs needs seconds to get over each, on any cluster."""
    check(play(cluster, tmp_path / "log", clients, failovers), clients, failovers)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_a_hundred_kills(cluster: EquipoiseCluster, tmp_path: Path) -> None:
    check(play(cluster, tmp_path / "log", CLIENTS, _MANY, ways=("kill",)), CLIENTS, _MANY)
