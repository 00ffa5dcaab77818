"""Real clients on Equipoise and on Apache Kafka: every scenario goes well on both, and comes out the same."""

from __future__ import annotations

import os
import shutil

import pytest

from proving.brokers import EquipoiseBroker
from proving.fetched import Unavailable
from proving.kfake import KfakeBroker
from proving.scenarios import play_on_both
from proving.scenarios.clients import ALL_CLIENTS
from proving.scenarios.consumer_plays import scenarios_of
from proving.scenarios.matrix import Outcome, differences, play_all
from proving.scenarios.page import cells, is_all_equal, table
from proving.scenarios.stage import SETTINGS


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """All of the matrix in one go: scenarios wait much and work little."""
    try:
        return play_on_both()
    except Unavailable as missing:
        if os.environ.get("EQUIPOISE_REQUIRE_KAFKA") == "1":
            pytest.fail(f"Apache Kafka: {missing}")
        pytest.skip(f"Apache Kafka: {missing}")


@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("scenario", "client"), [(scenario, client) for client in ALL_CLIENTS for scenario in scenarios_of(client)]
)
def test_same_on_both_brokers(outcomes: list[Outcome], client: str, scenario: str) -> None:
    played = [outcome for outcome in outcomes if (outcome.client, outcome.scenario) == (client, scenario)]
    assert [outcome.broker for outcome in played] == ["equipoise", "kafka"]
    reasons = {outcome.lacks for outcome in played}
    if reasons != {""}:
        is_missing = scenario not in ALL_CLIENTS[client].lacks and ("franz-go" not in client or shutil.which("go"))
        if is_missing and os.environ.get("EQUIPOISE_REQUIRE_CLIENTS") == "1":
            pytest.fail(f"{client}: {reasons}")
        pytest.skip(f"{client}: {reasons}")
    assert [outcome.failure for outcome in played] == ["", ""]
    assert differences(played) == {}


# -- without Kafka


def test_a_scenario_on_ours() -> None:
    (outcome,) = play_all([EquipoiseBroker(SETTINGS)], ["confluent-kafka"], ["broker killed"])
    assert outcome.failure == ""
    assert outcome.notes["commits are kept"] is True
    assert [len(share) for share in outcome.notes["shares"]] == [3, 3]


def test_a_scenario_of_the_consumer_protocol_on_ours() -> None:
    clients = ["confluent-kafka, consumer", "equipoise, consumer"]
    one, other = play_all([EquipoiseBroker(SETTINGS)], clients, ["one by one"])
    assert (one.failure, other.failure) == ("", "")
    assert one.notes == other.notes
    assert one.notes["the first never lets go of what it keeps"] is True


def test_a_group_on_kfake() -> None:
    """It keeps no __consumer_offsets to be read: no generations there."""
    try:
        kfake = KfakeBroker(SETTINGS)
    except Unavailable as missing:
        pytest.skip(f"kfake: {missing}")
    one, other = play_all([kfake], ["franz-go", "confluent-kafka"], ["added partitions"])
    assert (one.failure, other.failure) == ("", "")
    assert [len(share) for share in one.notes["shares"]] == [4, 4]
    assert one.notes == other.notes


def outcome(broker: str, **more: object) -> Outcome:
    return Outcome("java", "join", broker, **more)  # type: ignore[arg-type]


def test_an_outcome_that_differs_is_named() -> None:
    both = [outcome("equipoise", notes={"shares": [3, 3]}), outcome("kafka", notes={"shares": [4, 2]})]
    assert differences(both) == {("java", "join"): "shares: [3, 3] on equipoise, [4, 2] on kafka"}
    assert cells(both) == {("java", "join"): "DIFFERENT"}
    assert "[4, 2] on kafka" in table(both)
    assert not is_all_equal(both)


def test_a_failure_is_no_pass() -> None:
    both = [outcome("equipoise", failure="lost"), outcome("kafka", notes={"shares": [4, 2]})]
    assert cells(both) == {("java", "join"): "FAILED ok"}
    assert "FAILED on equipoise: lost" in table(both)
    assert not is_all_equal(both)


def test_what_was_not_played_is_no_pass() -> None:
    both = [outcome(broker, lacks="no Java here") for broker in ("equipoise", "kafka")]
    assert cells(both) == {("java", "join"): "-"}
    assert "java, join: -, no Java here" in table(both)
