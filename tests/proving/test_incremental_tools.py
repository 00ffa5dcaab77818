"""Row 128 of the plan of tests: kafka-consumer-groups and kafka-groups show an incremental group as a classic one, with
its members and assignments, in every phase of a move."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from proving.tools import Tools
from tests.broker.conftest import Connect, Start, connect, start
from tests.broker.test_incremental_groups import COOPERATIVE, GROUP, PARTITIONS, REJOIN, SETTINGS, TOPIC, Town
from tests.proving.needed import needed

pytestmark = pytest.mark.kafka

__all__ = ["connect", "start"]  # fixtures


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with needed(Tools) as running:
        yield running


class Seen:
    """A group as the tools show it."""

    def __init__(self, tools: Tools, town: Town) -> None:
        self._tools, self._town = tools, town

    def _run(self, tool: str, *arguments: str) -> str:
        output = self._tools.run(tool, *arguments, broker=self._town.broker)
        assert output.status == 0, output
        return output.stdout + output.stderr

    def state(self) -> str:
        """After a look at the strategy, the type, and how many members each list has."""
        described = self._run("kafka-consumer-groups", "--describe", "--group", GROUP, "--state")
        listed = self._run("kafka-consumer-groups", "--list", "--state")
        found = re.search(rf"^{GROUP}\s+\S+\s+\(\d+\)\s+(\S*)\s+(\w+)\s+(\d+)", described, re.MULTILINE)
        assert found is not None, described
        strategy, state, count = found.groups()
        assert re.search(rf"^{GROUP}\s+{state}", listed, re.MULTILINE), listed
        assert int(count) == len(self.shares())
        assert strategy == (COOPERATIVE if int(count) else "-")
        typed = self._run("kafka-groups", "--list")
        assert re.search(rf"^{GROUP}\s+Classic\s+consumer", typed, re.MULTILINE), typed
        return state

    def shares(self) -> dict[str, set[int]]:
        """By member id."""
        described = self._run("kafka-consumer-groups", "--describe", "--group", GROUP, "--members", "--verbose")
        rows = re.findall(rf"^{GROUP}\s+(\S+)\s+\S+\s+\S+\s+(\d+)\s+(.*)$", described, re.MULTILINE)
        shares = {member: set(map(int, re.findall(r"\d+", text.replace(TOPIC, "")))) for member, _, text in rows}
        assert [len(shares[member]) for member, *_ in rows] == [int(count) for _, count, _ in rows], described
        return shares


@pytest.mark.timeout(300)
def test_the_tools_see_a_classic_group_in_every_phase(tools: Tools, start: Start, connect: Connect) -> None:
    town = Town(start, connect, SETTINGS)
    seen = Seen(tools, town)
    (loser,) = town.settled(1)
    everything = set(range(PARTITIONS))
    assert seen.state() == "Stable"
    gainer = town.member()
    gainer.enter()
    gainer.send_sync()
    town.until_parked(1)
    assert seen.state() == "CompletingRebalance"
    assert seen.shares() == {loser.member_id: everything, gainer.member_id: set()}
    assert loser.told is REJOIN
    assert seen.state() == "PreparingRebalance"
    loser.join()
    kept = loser.sync()
    assert seen.state() == "CompletingRebalance"
    assert seen.shares() == {loser.member_id: everything, gainer.member_id: set()}  # it has not given them up yet
    loser.join()
    loser.sync()
    assert gainer.synced() == everything - kept
    assert seen.state() == "Stable"
    assert seen.shares() == {loser.member_id: kept, gainer.member_id: everything - kept}
    for one in (loser, gainer):
        one.leave()
    assert seen.state() == "Empty"
