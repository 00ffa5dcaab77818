"""One broker's side of a play of `consumer` groups: what members were told, what is seen, and what was written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self

from equipoise.client import Admin
from equipoise.wire.apis.k11_join_group import JoinGroupResponse
from equipoise.wire.apis.k14_sync_group import SyncGroupResponse
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from equipoise.wire.apis.k69_consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from equipoise.wire.schema import Message
from proving.conformance.consumer.records import Writings
from proving.conformance.normal import by_topic, plain, read_assignment
from proving.conformance.side import POLL_S, Moment, Open, Side
from proving.conformance.steps import AddPartitions, Ask, Persist, Restart, Step, UntilEpoch
from proving.conformance.worlds import OFFSETS_PARTITIONS, Place, World

_DESCRIBE_VERSION = 1
RECORDS = "records"


def begins_resolution(step: Step) -> bool:
    """Whether a regex is looked up behind it, at the broker's leisure."""
    return isinstance(step, Ask) and bool(step.fields.get("subscribed_topic_regex"))


class ConsumerSide(Side):
    """As `Side`, for groups that may be of either type."""

    def __init__(self, world: World, place: Place, groups: Mapping[str, str]) -> None:
        super().__init__(world, place, groups)
        self.names.reads_assignments = True  # the coordinator writes them, in the order of a hash map
        self._writings = Writings(self._observer, self.names, OFFSETS_PARTITIONS)
        self._written: list[str] = []
        self._kept: Moment = {}
        self._is_unsettled = False

    def begin(self, step: Step) -> None:
        if not self._is_unsettled:
            self._written = []
        self._is_unsettled = begins_resolution(step)
        super().begin(step)
        if isinstance(step, AddPartitions):
            with Admin(f"127.0.0.1:{self._port}") as admin:
                admin.add_partitions(self.names.actual(step.topic), step.count)
        elif isinstance(step, Restart):
            self._writings.read_on(self._observer)

    def settle(self, step: Step) -> Moment:
        if isinstance(step, Persist):
            self._persist(step)
        moment = {**self._kept, **super().settle(step), RECORDS: list(self._written)}
        self._kept = {}
        return moment

    def _persist(self, step: Persist) -> None:
        deadline = time.monotonic() + self._wait_s
        sent = self._sent
        while True:
            self._sent = sent  # however often it is asked, it is one request of the script
            self._send(step.ask)
            self._observe()
            self._kept = self._collect()
            if self._has_come(step) or time.monotonic() > deadline:
                return
            time.sleep(POLL_S)

    def _has_come(self, step: Persist) -> bool:
        intervals = [one.get("heartbeat_interval_ms") for one in self._kept.values() if isinstance(one, dict)]
        is_said = not step.interval_ms or step.interval_ms in intervals
        return is_said and self._epoch(step.group) >= step.epoch

    def _await_step(self, step: Step) -> bool:
        if isinstance(step, UntilEpoch):
            return self._await(lambda: self._epoch(step.group) >= step.epoch)
        if isinstance(step, Persist):
            return self._has_come(step)
        return super()._await_step(step)

    def _epoch(self, group: str) -> int:
        return int(self._seen[group].get("group_epoch", -1))

    def _is_member(self, who: str, group: str) -> bool:
        return any(row["member_id"].partition("#")[0] == who for row in self._seen[group]["members"])

    def cloned(self, world: World, place: Place) -> Self:
        """The same members, with what they know, on another broker that has their groups."""
        other = type(self)(world, place, self.names.groups)
        other.names.remember(self.names)
        other._sent = self._sent
        other._seen = dict(self._seen)
        other._writings.remember(self._writings)
        return other

    # -- what is seen

    def _observe(self) -> None:
        super()._observe()
        self._written += self._writings.read()

    def _describe(self, group_id: str) -> dict[str, Any]:
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        answer = self._observer.call(request, _DESCRIBE_VERSION)
        assert isinstance(answer, ConsumerGroupDescribeResponse)
        if answer.groups[0].error_code:
            return {"type": "classic", **super()._describe(group_id)}
        return {"type": "consumer", **plain(answer.groups[0], "ConsumerGroupDescribe", _DESCRIBE_VERSION, self.names)}

    def _learn(self, one: Open, answer: Message, outcome: dict[str, Any]) -> None:
        super()._learn(one, answer, outcome)
        who, names = one.ask.who, self.names
        if isinstance(answer, JoinGroupResponse) and not answer.error_code:
            names.epochs[who] = answer.generation_id
        elif isinstance(answer, SyncGroupResponse) and not answer.error_code:
            outcome["assignment"] = read_assignment(bytes(answer.assignment), names)
            if isinstance(outcome["assignment"], dict):
                names.held[who] = outcome["assignment"]["partitions"]
        elif isinstance(answer, ConsumerGroupHeartbeatResponse) and not answer.error_code:
            names.epochs[who] = max(answer.member_epoch, 0)
            if answer.assignment is not None:
                names.held[who] = by_topic(answer.assignment.topic_partitions, names)
