"""Groups on a broker in this process: its settings, what can be seen inside it, and members that may be missing."""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.coordinator.incremental.eligibility import offered_by, selected_protocol
from proving.fetched import Unavailable
from proving.members import fleet
from proving.members.events import Place
from proving.members.hosts import Host

# Sessions are as short as a test wants, and nobody waits long for others to come. Some records are from 2023: retention
# would be free to delete them.
SETTINGS = {"group.min.session.timeout.ms": 500, "group.initial.rebalance.delay.ms": 100, "log.retention.ms": -1}


class Fleet(fleet.Fleet):
    """A missing client is a skip, or with EQUIPOISE_REQUIRE_CLIENTS=1, as in CI, a failure."""

    def new_host(self, client: str) -> Host:
        try:
            return super().new_host(client)
        except Unavailable as missing:
            if os.environ.get("EQUIPOISE_REQUIRE_CLIENTS") == "1":
                pytest.fail(str(missing))
            pytest.skip(str(missing))


class GroupView(NamedTuple):
    state: str
    generation: int
    protocol: str | None
    members: dict[str, str | None]  # member id to group.instance.id


def view_group(broker: Broker, group_id: str) -> GroupView:
    """The group as the broker in this process has it."""

    def look(server: Server) -> GroupView:
        group = server.group_coordinator.shard_of(group_id).core.find(group_id)
        if group is None:
            return GroupView("Dead", -1, None, {})
        if isinstance(group, ConsumerGroup):
            kept = {member.member_id: member.instance_id for member in group.members.values()}
            return GroupView(group.state_word, group.group_epoch, selected_protocol(offered_by(group)), kept)
        members = {member.member_id: member.group_instance_id for member in group.members.values()}
        return GroupView(group.state.value, group.generation_id, group.protocol_name, members)

    return broker.call(look)


def committed(broker: Broker, group_id: str) -> dict[Place, int]:
    rows = broker.call(lambda server: server.group_coordinator.shard_of(group_id).core.fetch_offsets(group_id, None))
    return {(topic.name, row.partition_index): row.committed_offset for topic in rows for row in topic.partitions}
