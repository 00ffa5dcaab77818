"""Row 127 of the plan of tests: a newcomer comes to an incremental group, and SIGKILL ends the broker after each
action of its members until the group has settled. Nobody is fenced, nobody shares, and the move ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from equipoise.wire.errors import ErrorCode
from tests.broker.calls import create_topic
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.broker.test_incremental_groups import GROUP, PARTITIONS, SETTINGS, TOPIC, Classic, Town, settle
from tests.crash.warm import WarmBroker
from tests.spec.requests import describe

FEWEST_ACTIONS = 7  # of a move: who joins, who is told, who gives up, who gets
PATIENCE_S = 60


class ServedTown(Town):
    """A broker as a process, with real time."""

    def __init__(self, directory: Path) -> None:
        self._served = WarmBroker(directory / "data", directory / "log", SETTINGS).start()
        self._open = ExitStack()
        create_topic(self.client(), TOPIC, PARTITIONS)

    def client(self) -> RawClient:
        return self._open.enter_context(RawClient(self._served.address))

    def end_initial_delay(self) -> None:
        """There is none, and the clock goes by itself."""

    def close(self) -> None:
        self._open.close()
        self._served.close()

    def kill_and_start(self) -> None:
        self._served.kill()
        self._served.start()
        client = self.client()
        eventually(lambda: client.call(describe(GROUP)).groups[0].error_code == ErrorCode.NONE, "the group is loaded")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[ServedTown]:
    town = ServedTown(tmp_path)
    yield town
    town.close()
    assert "Traceback" not in (tmp_path / "log").read_text()


def reconnect(member: Classic) -> None:
    """An answer that was waited for is asked for again."""
    member.reconnect()
    member.must_sync, member.is_syncing = member.must_sync or member.is_syncing, False


def live_until(members: list[Classic], count: int) -> bool:
    """So many actions that change something. Whether the group had so many left to do."""
    deadline = time.monotonic() + PATIENCE_S
    while count and not is_settled(members):
        assert time.monotonic() < deadline, f"{count} actions are still to come"
        for member in members:
            before = condition(member)
            member.live()
            count -= condition(member) != before
            if not count:
                return True
    return False


def condition(member: Classic) -> tuple[object, ...]:
    return (member.generation, member.must_sync, member.is_syncing, member.must_rejoin, frozenset(member.owned))


def is_settled(members: list[Classic]) -> bool:
    return sorted(len(one.owned) for one in members) == [2, 2, 2] and not any(one.is_syncing for one in members)


def test_a_move_survives_a_kill_after_each_action(town: ServedTown) -> None:
    members = town.settled(2)
    kills = 0
    for action in range(1, 60):
        newcomer = town.member()
        newcomer.enter()
        everybody = [*members, newcomer]
        if not live_until(everybody, action):
            break
        town.kill_and_start()
        kills += 1
        for one in everybody:
            reconnect(one)
        settle(everybody)
        assert is_settled(everybody)
        newcomer.leave()
        newcomer.die()
        settle(members)
    assert kills >= FEWEST_ACTIONS
