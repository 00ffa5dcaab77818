"""Plans beside the state machines in a world, and the command that prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.planning import rows, study
from equipoise.coordinator.config import GroupConfig
from equipoise.member import Callback, CallbackKind, TopicPartition
from equipoise.simulate import Call, Clock, Network, Observer, World
from equipoise.simulate.plan import SCENARIOS, STRATEGIES, Planned, PlanSettings, plan
from equipoise.wire.apis.k11_join_group import JoinGroupRequest
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest
from proving.tree import ROOT
from tests.commands import Command
from tests.console.schemas import all_schemas, check

MEMBERS, PARTITIONS = 12, 48
SETTINGS = PlanSettings(members=MEMBERS, partitions=PARTITIONS, session_timeout_ms=10_000, restart_ms=4_000)
CONFIG = GroupConfig(
    group_initial_rebalance_delay_ms=0,
    group_consumer_session_timeout_ms=SETTINGS.session_timeout_ms,
    group_consumer_heartbeat_interval_reconciling_ms=0,
    group_consumer_assignment_timer=False,
)


class Measured(Observer):
    """Partitions that nobody reads, and requests, in a world."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._owners: dict[TopicPartition, str] = {}
        self._since: dict[TopicPartition, int] = {}
        self.dark_ms = 0
        self.requests = 0
        self.is_on = False

    def called_back(self, name: str, callback: Callback) -> None:
        for one in callback.partitions:
            if callback.kind is CallbackKind.ASSIGNED:
                since = self._since.pop(one, self._clock.now)
                self.dark_ms += (self._clock.now - since) * self.is_on
                self._owners[one] = name
            elif self._owners.get(one) == name:
                self.lose(one)

    def lose(self, one: TopicPartition) -> None:
        self._since[one] = self._clock.now
        self._owners.pop(one, None)

    def died(self, name: str) -> None:
        for one in [one for one, owner in self._owners.items() if owner == name]:
            self.lose(one)

    def answered(self, call: Call) -> None:
        self.requests += self.is_on * isinstance(call.request, JoinGroupRequest | SyncGroupRequest)


def town(strategy: str) -> tuple[World, Measured]:
    clock = Clock()
    measured = Measured(clock)
    world = World({"t": PARTITIONS}, config=CONFIG, clock=clock, network=Network(clock), observers=[measured])
    for number in range(MEMBERS):
        start(world, strategy, number)
    world.settle(120_000)
    world.advance(12_000)
    world.settle(120_000)
    measured.is_on = True
    return world, measured


def start(world: World, strategy: str, number: int) -> None:
    name, settings = f"m{number}", {"group_instance_id": f"i{number}" if "static" in strategy else None}
    if STRATEGIES[strategy].is_consumer:
        consumer = world.consumer_of_848(name, **settings)
    else:
        assignor = "cooperative-sticky" if STRATEGIES[strategy].is_cooperative else "range"
        consumer = world.consumer(name, assignor, session_timeout_ms=SETTINGS.session_timeout_ms, **settings)
    consumer.subscribe("t")


def generation(world: World) -> int:
    (group,) = world.shard.all_groups()
    return group.generation_id


def planned(scenario: str, strategy: str) -> Planned:
    (found,) = plan(scenario, [strategy], SETTINGS)
    return found


@pytest.mark.parametrize("strategy", ["eager", "cooperative", "consumer"])
def test_a_crash_costs_what_the_state_machines_say(strategy: str) -> None:
    world, measured = town(strategy)
    before = generation(world)
    world.advance(1_234)
    measured.died("m3")
    world.kill("m3")
    world.advance(SETTINGS.session_timeout_ms)
    world.settle(60_000)
    world.advance(10_000)
    found = planned("crash", strategy)
    assert found.rebalances == generation(world) - before == 1
    assert found.messages - found.heartbeats == measured.requests
    assert measured.dark_ms / 1_000 == pytest.approx(found.dark_partition_seconds, rel=0.35)


@pytest.mark.parametrize("strategy", ["eager", "cooperative", "static", "consumer"])
def test_a_rolling_restart_costs_what_the_state_machines_say(strategy: str) -> None:
    world, measured = town(strategy)
    before = generation(world)
    for number in range(MEMBERS):
        world.consumers[f"m{number}"].close()
        world.advance(SETTINGS.restart_ms)
        world.kill(f"m{number}")
        start(world, strategy, number)
        world.advance(2 * SETTINGS.consumer_heartbeat_interval_ms)
    world.settle(60_000)
    found = planned("rolling-restart", strategy)
    assert found.rebalances == pytest.approx(generation(world) - before, rel=0.1)
    assert found.messages - found.heartbeats == pytest.approx(measured.requests, rel=0.15, abs=2 * MEMBERS)
    assert measured.dark_ms / 1_000 == pytest.approx(found.dark_partition_seconds, rel=0.5)


def test_the_same_settings_give_the_same_plan() -> None:
    for scenario in SCENARIOS:
        first, second = (list(plan(scenario, list(STRATEGIES), SETTINGS)) for _ in range(2))
        assert first == second
        assert all(one.dark_partition_seconds > 0 for one in first)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("scenario", ["rolling-restart", "deploy-storm"])
def test_partitions_of_the_only_member_wait_until_it_is_back(scenario: str, strategy: str) -> None:
    settings = PlanSettings(members=1, partitions=5, restart_ms=10_000)
    (planned,) = plan(scenario, [strategy], settings)
    heard = settings.heartbeat_interval_ms / 1000
    assert 10 <= planned.longest_dark_seconds <= 10 + heard
    assert 5 * 10 <= planned.dark_partition_seconds <= 5 * (10 + heard)


def test_no_group_is_read_by_less_than_nobody() -> None:
    for seed in range(50):
        settings = PlanSettings(members=1 + seed % 3, partitions=7, window_ms=5_000, seed=seed)
        for planned in plan("deploy-storm", list(STRATEGIES), settings):
            assert 0 <= planned.dark_partition_seconds <= 7 * planned.seconds, (settings, planned)


def test_the_command_prints_a_table_an_object_and_a_picture(command: Command, tmp_path: Path) -> None:
    asked = ["simulate", "plan", "--members", "50", "--partitions", "500", "--scenario", "crash"]
    table = command(*asked)
    assert [line.split()[0] for line in table.out.splitlines()[1:]] == ["eager", "cooperative", "static", "consumer"]
    picture = tmp_path / "plan.png"
    ended = command(*asked, "--strategy", "eager", "--json", "--plot", str(picture))
    assert ended.status == 0, ended.err
    told = json.loads(ended.out)
    check(told, all_schemas()["plan"])
    assert [one["strategy"] for one in told["strategies"]] == ["eager"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_command_says_what_there_is(command: Command) -> None:
    asked = ["simulate", "plan", "--members", "5", "--partitions", "5", "--scenario"]
    assert command(*asked, "flood").err == (
        "equipoise: there is no scenario flood; write one of rolling-restart, scale-out, crash, gc-pause, "
        "deploy-storm\n"
    )
    assert "there is no strategy lazy; write one of eager" in command(*asked, "crash", "--strategy", "lazy").err


def test_members_that_send_no_heartbeats_are_refused(command: Command) -> None:
    for option in ("--heartbeat", "--consumer-heartbeat"):
        status, _, error = command(
            "simulate", "plan", "--members", 3, "--partitions", 6, "--scenario", "crash", option, "0s"
        )
        assert (status, error) == (2, "equipoise: members send heartbeats: write 1ms or more between two of them\n")


def test_the_hunt_prints_its_seed_and_an_object(command: Command) -> None:
    told = command("simulate", "check", "--seed", "7", "--seeds", "1")
    assert told.out.startswith("first seed 7\n1 runs, ")
    found = json.loads(command("simulate", "check", "--seed", "7", "--seeds", "1", "--json").out)
    check(found, all_schemas()["simulated"])
    assert (found["first_seed"], found["runs"], found["broken"]) == (7, 1, None)
    assert "there is no kind of group odd" in command("simulate", "check", "--kind", "odd").err


def test_the_document_has_the_figures_of_the_study() -> None:
    """Those of small groups; the large ones take a minute."""
    document = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    for found in study([10, 100]):
        for row in rows(found):
            assert row in document
