"""One broker's side of a play: sends what the script says, then waits until it is certain what came of it.

Certain without a guess: both brokers serve what lies ready on their connections in one go, and a group's requests
in the order in which they came. So when a second OffsetFetch that waits for the group's writes has been answered,
the step has been served, and DescribeGroups shows it; when one more request behind that has been answered, all
answers that belong to what was described are on the wire. What is not there by then is parked. (Kafka runs with one
network and one request thread, so that this order holds.)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from equipoise.client import Admin
from equipoise.wire.apis import APIS
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequest
from equipoise.wire.apis.k15_describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from equipoise.wire.schema import Message, Struct
from proving.conformance.line import Closed, Line
from proving.conformance.listed import CLOSED, PARKED
from proving.conformance.normal import Names, group_of, plain
from proving.conformance.steps import (
    Ask,
    Drop,
    DropTopic,
    MakeTopic,
    Restart,
    Step,
    Until,
    UntilAnswered,
    UntilGone,
    UntilOffsets,
)
from proving.conformance.worlds import Place, World

_KEYS = {api.name: api.key for api in APIS.values()}
POLL_S = 0.02
_ANSWER_S = 20.0  # for what is never parked; large answers come in pieces
_FETCH_VERSION, _DESCRIBE_VERSION = 7, 5

Moment = dict[str, Any]  # what each open request has come to, and each group, after one step


@dataclass
class Open:
    """A request that has not been answered."""

    label: str
    ask: Ask
    line: Line

    @property
    def may_be_parked(self) -> bool:
        return self.ask.is_behind or self.ask.api in ("JoinGroup", "SyncGroup")


class Side:
    """One play against one broker."""

    def __init__(self, world: World, place: Place, groups: Mapping[str, str]) -> None:
        self.name = place.name
        self.names = Names(groups, place.topic_ids, place.port)
        self._port = place.port
        self._is_quick = world.is_quick
        self._wait_s = world.wait_s
        self._observer = Line(place.port, "observer")
        self._lines: dict[str, list[Line]] = {}
        self.open: list[Open] = []
        self._seen: dict[str, dict[str, Any]] = {name: {"group_state": "Dead"} for name in groups}
        self._sent = 0

    # -- a step

    def begin(self, step: Step) -> None:
        if isinstance(step, Ask):
            self._send(step)
        elif isinstance(step, Drop):
            for line in self._lines.pop(step.who, []):
                line.close()
            self.open = [one for one in self.open if one.ask.who != step.who]
        elif isinstance(step, MakeTopic | DropTopic):
            self._change_topic(step)
        elif isinstance(step, Restart):
            self.close()
            self._lines.clear()
            self.open.clear()
            self._observer = Line(self._port, "observer")

    def _change_topic(self, step: MakeTopic | DropTopic) -> None:
        actual = f"{step.topic}-{'-'.join(self.names.groups.values())}"
        with Admin(f"127.0.0.1:{self._port}") as admin:
            if isinstance(step, DropTopic):
                admin.delete_topic(actual)
                return
            admin.create_topic(actual, 2)
            while not (made := [topic.topic_id for topic in admin.topics() if topic.name == actual]):
                time.sleep(POLL_S)
        self.names.made_topic(step.topic, actual, made[0])

    def _send(self, ask: Ask) -> None:
        key = _KEYS[ask.api]
        request = build(APIS[key].request, self.names.resolve(dict(ask.fields), group_of(ask)))
        assert isinstance(request, Message)
        line = self._line(ask)
        self._sent += 1
        line.send(request, ask.version)
        self.open.append(Open(f"{self._sent} {ask.who} {ask.api} v{ask.version}", ask, line))

    def _line(self, ask: Ask) -> Line:
        """An idle one: Kafka would not read the next request behind a parked one."""
        lines = self._lines.setdefault(ask.who, [])
        for line in lines:
            if line.is_busy is ask.is_behind:
                return line
        lines.append(Line(self._port, ask.who.lower()))  # a static member's id begins with its instance id instead
        return lines[-1]

    def settle(self, step: Step) -> Moment:
        """What has come of the step, once that is certain."""
        before = {name: seen["group_state"] for name, seen in self._seen.items()}
        self._observe()
        if self._is_quick and not isinstance(step, Until):
            self._await(lambda: not any(self._is_passing(name, before[name]) for name in before))
        reached = self._await_step(step)
        moment = self._collect()
        moment.update(self._seen)
        if not reached:
            moment["wait"] = f"in vain on {self.name}, for {self._wait_s:.0f} s"
        return moment

    def _is_passing(self, group: str, before: str) -> bool:
        """Whether a timer of no length is under way: the initial delay, or the join of nobody."""
        seen = self._seen[group]
        if seen["group_state"] != "PreparingRebalance":
            return False
        return before in ("Dead", "Empty") or (before != "PreparingRebalance" and not seen["members"])

    def _await_step(self, step: Step) -> bool:
        if isinstance(step, Until):
            return self._await(lambda: self._seen[step.group]["group_state"] == step.state)
        if isinstance(step, UntilGone):
            return self._await(lambda: not self._is_member(step.who, step.group))
        if isinstance(step, UntilOffsets):
            reached = self._await(lambda: len(self._seen[step.group]["offsets"]) == step.count)
            self._observe()  # the offsets may be newer than the state that was seen just before them
            return reached
        if isinstance(step, UntilAnswered):
            answered = self._await(lambda: self._is_answered(step.who))
            self._observe()  # the answer may be newer than what was seen of its group
            return answered
        return True

    def _is_member(self, who: str, group: str) -> bool:
        return any(row["member_id"].startswith(f"{who}#") for row in self._seen[group]["members"])

    def _is_answered(self, who: str) -> bool:
        """Looks without taking: the answers are taken in the order of the requests, when the step is over."""
        return all(one.line.has_frame() for one in self.open if one.ask.who == who)

    def _await(self, is_so: Any) -> bool:
        deadline = time.monotonic() + self._wait_s
        if is_so():
            return True
        while not is_so() and time.monotonic() < deadline:
            time.sleep(POLL_S)
            self._observe()
        self._observe()  # once more, so that the answers are there too
        return bool(is_so())

    # -- what is seen

    def _observe(self) -> None:
        for name, group_id in self.names.groups.items():
            fetch = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=True)
            self._observer.call(fetch, _FETCH_VERSION)
            self._observer.call(fetch, _FETCH_VERSION)
            described = self._describe(group_id)
            fetched = self._observer.call(fetch, _FETCH_VERSION)
            offsets = plain(fetched, "OffsetFetch", _FETCH_VERSION, self.names)["topics"]
            self._seen[name] = {**described, "offsets": _by_partition(offsets)}

    def _describe(self, group_id: str) -> dict[str, Any]:
        answer = self._observer.call(DescribeGroupsRequest(groups=[group_id]), _DESCRIBE_VERSION)
        assert isinstance(answer, DescribeGroupsResponse)
        return plain(answer.groups[0], "DescribeGroups", _DESCRIBE_VERSION, self.names)

    def _collect(self) -> Moment:
        moment: Moment = {}
        for one in list(self.open):
            outcome = self._outcome(one)
            moment[one.label] = outcome
            if outcome != PARKED:
                self.open.remove(one)
        return moment

    def _outcome(self, one: Open) -> Any:
        try:
            answer = one.line.take() if one.may_be_parked else one.line.wait(_ANSWER_S)
        except Closed:
            self._lines[one.ask.who].remove(one.line)
            one.line.close()
            return CLOSED
        if answer is None:
            return PARKED
        outcome = plain(answer, one.ask.api, one.ask.version, self.names)
        self._learn(one, answer, outcome)
        return outcome

    def _learn(self, one: Open, answer: Message, outcome: dict[str, Any]) -> None:
        """What later steps refer to."""
        if one.ask.api == "JoinGroup" and outcome["error_code"] == "NONE":
            self.names.generations[group_of(one.ask)] = outcome["generation_id"]

    def forgive(self, label: str) -> None:
        """A request that the other side has answered, as listed: no more of it."""
        self.open = [one for one in self.open if one.label != label]

    def close(self) -> None:
        with suppress(OSError):
            self._observer.close()
        for lines in self._lines.values():
            for line in lines:
                line.close()


def _by_partition(topics: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        f"{topic['name']}:{row.pop('partition_index')}": row
        for topic in topics
        for row in map(dict, topic["partitions"])
    }


def build(cls: type[Struct], values: Mapping[str, Any]) -> Struct:
    """A message, or a struct in one, from nested plain data."""
    made = {}
    for name, value in values.items():
        kind = cls.fields[name].type
        if isinstance(kind, list) and isinstance(kind[0], type) and value is not None:
            value = [build(kind[0], one) for one in value]
        made[name] = value
    return cls(**made)
