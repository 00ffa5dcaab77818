"""Members and coordinator under everything that can happen between them, in any order, against what must always hold.

After every event:
- no partition is read by two members of one generation; one that was put out and does not know yet cannot commit;
- the application is told deltas that add up: what it has been given and has not given back is the assignment;
- a commit that succeeded was written in its member's generation, and never undoes a newer one;
- no deadline is in the past, and no transition outside the table.
When the noise stops: every member is Stable, all partitions are owned, every commit has been answered once, and
nobody says more than heartbeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from equipoise.member import Callback, CallbackKind, Commit, MemberState, TopicPartition
from equipoise.member.partitions import Owned
from equipoise.simulate import Call, Consumer, Observer
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tests.effort import examples
from tests.member.town import town

SESSION_MS, HEARTBEAT_MS, MAX_POLL_MS = 10_000, 3_000, 20_000
BOTH = ("range", "cooperative-sticky")
# Which members can be in one group: each list has an assignor in common.
TEMPERS: list[list[tuple[str, ...]]] = [
    [("range",), ("roundrobin", "range")],
    [("sticky",)],
    [("cooperative-sticky",)],
    [("cooperative-sticky",)],
    [("range",), BOTH],
    [BOTH, ("cooperative-sticky",)],
]
SLOTS = st.integers(0, 3)
TIMES = st.sampled_from([1, 2, 3, 5, 10, 100, 1_000, 3_000, 5_000, 11_000, 21_000])
PAUSE_MS = 25_000  # at most
PAUSES = st.sampled_from([1, 50, 2_000, 5_000, 11_000, PAUSE_MS])
LOADING = st.sampled_from([0, 0, 5, 1_000, 5_000])
SUBSCRIPTIONS = st.sampled_from([("t",), ("t", "u"), ("u",), None])  # None: the pattern of both


class Replies(Observer):
    def __init__(self, note: Callable[[Call], None]) -> None:
        self._note = note

    def answered(self, call: Call) -> None:
        self._note(call)


class TownMachine(RuleBasedStateMachine):
    @initialize(
        temper=st.sampled_from(TEMPERS),
        statics=st.sets(SLOTS),
        first=st.integers(1, 4),
        delay=st.sampled_from([0, 3_000]),
        hold_ms=st.sampled_from([0, 2_700]),
    )
    def begin(self, temper: list[tuple[str, ...]], statics: set[int], first: int, delay: int, hold_ms: int) -> None:
        self.world = town({"t": 4, "u": 2}, Replies(self.note), delay=delay)
        self.world.hold_ms = hold_ms
        self.world.clock.after_each = self.check
        self.temper, self.statics = temper, statics
        self.slots: dict[int, Consumer] = {}
        self.births = 0
        self.told: dict[Consumer, Owned] = {}
        self.answered: Counter[Commit] = Counter()
        self.asked: list[Commit] = []
        self.next_offset = 1
        self.written: dict[TopicPartition, list[int]] = {}
        self.sent = 0
        for slot in range(first):
            self.start(slot, 0, ("t",))

    # -- members come and go

    @rule(slot=SLOTS, kind=st.integers(0, 1), topics=SUBSCRIPTIONS)
    def start(self, slot: int, kind: int, topics: tuple[str, ...] | None) -> None:
        """Into a slot that is taken, it comes as a second process: of a static member, that fences the first."""
        self.births += 1
        assignors = self.temper[kind % len(self.temper)]
        consumer = self.world.consumer(
            f"m{self.births}",
            *assignors,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=MAX_POLL_MS,
            group_instance_id=f"i{slot}" if slot in self.statics else None,
        )
        if slot in self.slots and slot not in self.statics:
            self.slots[slot].close()
        self.slots[slot] = consumer
        self.told[consumer] = frozenset()
        consumer.listener = lambda callback: self.tell(consumer, callback, commits=False)
        self.subscribe_to(consumer, topics)

    @rule(slot=SLOTS, leave=st.sampled_from([None, True, False]))
    def close(self, slot: int, leave: bool | None) -> None:
        if slot in self.slots:
            self.slots.pop(slot).close(leave=leave)

    @rule(slot=SLOTS)
    def die(self, slot: int) -> None:
        if slot in self.slots:
            consumer = self.slots.pop(slot)
            self.world.kill(consumer.name)
            self.told.pop(consumer)
            self.asked = [commit for commit in self.asked if commit not in consumer.commits]

    @rule(slot=SLOTS, topics=SUBSCRIPTIONS, first_leaves=st.booleans())
    def subscribe(self, slot: int, topics: tuple[str, ...] | None, first_leaves: bool) -> None:
        consumer = self.slots.get(slot)
        if consumer is not None:
            if first_leaves:
                consumer.unsubscribe()
            self.subscribe_to(consumer, topics)

    def subscribe_to(self, consumer: Consumer, topics: tuple[str, ...] | None) -> None:
        if topics is None:
            consumer.subscribe(pattern="t|u")
        else:
            consumer.subscribe(*topics)

    @rule(slot=SLOTS)
    def enforce_rebalance(self, slot: int) -> None:
        if slot in self.slots:
            self.slots[slot].enforce_rebalance("somebody wants it")

    # -- applications

    @rule(slot=SLOTS)
    def commit(self, slot: int) -> None:
        consumer = self.slots.get(slot)
        if consumer is not None and not consumer.is_frozen:
            self.commit_of(consumer, consumer.member.readable)

    def commit_of(self, consumer: Consumer, partitions: Owned) -> None:
        if not partitions:
            return
        self.next_offset += 1
        commit = consumer.commit(dict.fromkeys(partitions, self.next_offset))
        self.asked.append(commit)
        if commit.is_done:
            self.done(commit)
        else:
            commit.on_done = self.done

    def done(self, commit: Commit) -> None:
        self.answered[commit] += 1
        assert self.answered[commit] == 1
        if commit.error is None:
            for where, (offset, _, _) in commit.offsets.items():
                assert offset in self.written.get(where, ()), f"{where}={offset} was never written"

    @rule(slot=SLOTS, callback_ms=st.sampled_from([0, 1, 500, 11_000, 25_000]), commits=st.booleans())
    def take_time(self, slot: int, callback_ms: int, commits: bool) -> None:
        """From now on its listener takes long, and commits what it gives back."""
        if slot in self.slots:
            consumer = self.slots[slot]
            consumer.callback_ms = callback_ms
            consumer.listener = lambda callback: self.tell(consumer, callback, commits=commits)

    @rule(slot=SLOTS, ms=PAUSES)
    def be_slow(self, slot: int, ms: int) -> None:
        if slot in self.slots:
            consumer = self.slots[slot]
            consumer.polls = False
            self.world.clock.after(ms, consumer.poll)

    @rule(slot=SLOTS, ms=PAUSES)
    def freeze(self, slot: int, ms: int) -> None:
        if slot in self.slots:
            self.slots[slot].freeze(ms)

    # -- the network, the topics and the coordinator

    @rule(slot=SLOTS, what=st.sampled_from(["request", "reply"]))
    def lose(self, slot: int, what: Literal["request", "reply"]) -> None:
        if slot in self.slots:
            self.slots[slot].connection.lose_next = what

    @rule(slot=SLOTS, ms=PAUSES)
    def disconnect(self, slot: int, ms: int) -> None:
        if slot in self.slots:
            consumer = self.slots[slot]
            consumer.connection.is_up = False
            consumer.connection.cut()
            self.world.clock.after(ms, lambda: setattr(consumer.connection, "is_up", True))

    @rule(topic=st.sampled_from("tu"))
    def grow(self, topic: str) -> None:
        self.world.topics[topic] = min(self.world.topics[topic] + 1, 8)
        self.world.tell_metadata()

    @rule(loading_ms=LOADING)
    def crash(self, loading_ms: int) -> None:
        if self.world.node_id:
            self.world.crash(loading_ms)

    @rule(ms=PAUSES, loading_ms=LOADING)
    def move(self, ms: int, loading_ms: int) -> None:
        if self.world.node_id:
            node_id = 3 - self.world.node_id
            self.world.unload()
            self.world.clock.after(ms, lambda: self.world.load(node_id, loading_ms))

    @rule(ms=TIMES)
    def wait(self, ms: int) -> None:
        self.world.advance(ms)

    @rule()
    def calm(self) -> None:
        """Else few groups would ever be Stable."""
        self.world.advance(8_000)

    # -- what must hold

    def tell(self, consumer: Consumer, callback: Callback, *, commits: bool) -> None:
        had = self.told[consumer]
        if callback.kind is CallbackKind.ASSIGNED:
            assert not callback.partitions & had, "assigned twice"
            self.told[consumer] = had | callback.partitions
        else:
            assert callback.partitions, "there is nothing to give back"
            assert callback.partitions <= had, "taken back what was never assigned"
            if commits:
                self.commit_of(consumer, callback.partitions)
            self.told[consumer] = had - callback.partitions

    def note(self, call: Call) -> None:
        self.sent += 1
        request, response = call.request, call.reply
        if not isinstance(request, OffsetCommitRequest) or not isinstance(response, OffsetCommitResponse):
            return
        group = self.world.shard.groups.get("g")
        for topic, asked in zip(response.topics, request.topics, strict=True):
            for row, wanted in zip(topic.partitions, asked.partitions, strict=True):
                if not row.error_code:
                    assert group is not None
                    assert request.member_id in group.members
                    assert request.generation_id_or_member_epoch == group.generation_id
                    history = self.written.setdefault(TopicPartition(topic.name, row.partition_index), [0])
                    assert history[-1] <= wanted.committed_offset, "a newer commit was undone"
                    history.append(wanted.committed_offset)

    def check(self) -> None:
        readers: Counter[TopicPartition] = Counter()
        for consumer in self.world.consumers.values():
            self.check_callbacks(consumer)
            if self.counts(consumer):
                readers.update(consumer.member.readable)
        assert all(count == 1 for count in readers.values()), readers

    def check_callbacks(self, consumer: Consumer) -> None:
        member = consumer.member
        owned = set(member.assignment)
        for number, callback in enumerate(member.callbacks):
            is_begun = number == 0 and consumer.is_in_callback
            if (callback.kind is CallbackKind.ASSIGNED) is not is_begun:
                owned -= callback.partitions
            if callback.kind is not CallbackKind.ASSIGNED and not is_begun:
                owned |= callback.partitions
        assert owned == self.told[consumer]
        assert member.readable <= self.told[consumer]

    def counts(self, consumer: Consumer) -> bool:
        """Whether the coordinator takes it for a member of this generation, or on its way into it."""
        member, group = consumer.member, self.world.shard.groups.get("g")
        if group is None or member.member_id not in group.members:
            return False
        is_on_its_way = member.state is MemberState.PREPARING_REBALANCE and not member.config.is_static
        return member.generation_id == group.generation_id or is_on_its_way

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.advance(2 * PAUSE_MS)
        for consumer in self.world.consumers.values():
            consumer.connection.is_up, consumer.connection.lose_next, consumer.callback_ms = True, None, 0
            consumer.poll()
        self.tell_the_coordinator()
        self.world.settle(4 * MAX_POLL_MS)
        self.check()
        before = self.sent
        self.world.advance(60_000)  # a commit has had its time
        assert self.sent - before <= len(self.world.consumers) * (60_000 // HEARTBEAT_MS + 2)
        assert all(self.answered[commit] == 1 for commit in self.asked)
        for consumer in self.world.consumers.values():
            consumer.close(leave=True)
        self.world.advance(10)
        assert all(consumer.member.has_left for consumer in self.world.consumers.values())
        assert not any(self.told.values())

    def tell_the_coordinator(self) -> None:
        """It takes back a static member without a rebalance, even if its topics are others than before; and of members
        that it read back after a crash it knows but one assignor. Who joins again is known again."""
        if self.statics or len(self.temper) > 1:
            self.world.advance(MAX_POLL_MS)
            for consumer in self.world.consumers.values():
                consumer.enforce_rebalance("to be known")


# A failure is shown as it was found: to make it shorter would take minutes.
_CALM: Any = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.reuse, Phase.generate],
    "report_multiple_bugs": False,
}


def test_members_and_coordinator_whatever_happens() -> None:
    run_state_machine_as_test(
        TownMachine, settings=settings(max_examples=examples(150), stateful_step_count=40, **_CALM)
    )


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_members_and_coordinator_whatever_happens_for_long() -> None:
    run_state_machine_as_test(TownMachine, settings=settings(max_examples=10_000, stateful_step_count=120, **_CALM))
