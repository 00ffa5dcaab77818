"""A group under everything that can happen to it, in any order, against what must always hold.

Members that behave as clients do, and rude ones; writes that are durable late, or never; restarts that lose what
was not durable. Held after every step:
- a partition has one owner per generation, whoever asks and however often the coordinator restarts;
- the generation only grows, by one with every join phase; no transition outside the table;
- a member that is gone, fenced or of an old generation never commits;
- committed offsets are exactly those that were acknowledged, in the order of the log.
And at the end: every parked request has been answered, once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from equipoise.coordinator.classic.states import TRANSITIONS, State
from equipoise.coordinator.events import StateChanged
from equipoise.simulate import Call
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.errors import ErrorCode
from tests.effort import examples
from tests.property.simulated import PARTITIONS, Simulated, Stage, assign
from tests.spec.context import Context, assignment, partitions_in, protocols

CLIENTS = st.integers(0, 4)
TURNS = st.integers(0, 3)  # how the leader shares out the partitions
TIMES = st.sampled_from([0, 1, 100, 1_000, 2_999, 3_000, 5_000, 9_999, 10_000, 60_000, 300_000])
FAILURES = st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE])
LONG_ENOUGH = 1_000_000  # for every session, join and sync to be over
KEEPER = {PARTITIONS: 0}  # an offset outside the members' partitions, so that no sweep takes the group away


class Commit(NamedTuple):
    call: Call
    offsets: dict[int, int]
    is_stale: bool


class GroupMachine(RuleBasedStateMachine):
    @initialize(
        cooperative=st.booleans(),
        statics=st.lists(st.booleans(), min_size=5, max_size=5),
        versions=st.lists(st.sampled_from([3, 4, 5, 8, 9]), min_size=5, max_size=5),
        early=st.booleans(),
        debounce=st.sampled_from([0, 0, 100]),
        max_size=st.sampled_from([2**31 - 1, 2**31 - 1, 2**31 - 1, 3]),
        first=st.sets(CLIENTS, max_size=4),
    )
    def begin(
        self,
        cooperative: bool,
        statics: list[bool],
        versions: list[int],
        early: bool,
        debounce: int,
        max_size: int,
        first: set[int],
    ) -> None:
        self.ctx = Context(
            group_initial_rebalance_delay_early=early, group_rebalance_debounce_ms=debounce, group_max_size=max_size
        )
        self.clients = [
            Simulated(
                self.ctx,
                f"c{one}",
                instance=f"i{one}" if statics[one] else None,
                cooperative=cooperative,
                version=max(versions[one], 5) if statics[one] else versions[one],
            )
            for one in range(5)
        ]
        self.calls: list[Call] = []
        self.commits: list[Commit] = []
        self.acknowledged: dict[int, int] = {}
        self.owners: dict[tuple[int, int], str] = {}  # by generation and partition
        self.syncs: list[tuple[Call, int, str]] = []
        self.joins: list[tuple[Call, str | None]] = []
        self.gone: set[str] = set()  # member ids that were told so, since the last restart
        self.next_offset = 1
        self.seen_events = 0
        self.state, self.generation = State.EMPTY, 0
        self.newest = 0  # the newest generation that anybody was told, since the last restart
        self.ctx.commit(KEEPER)
        self.ctx.hold_writes()
        self.calm(first, turn=0, rounds=8, writes=True)

    # -- members as they are

    @rule(who=st.sets(CLIENTS), turn=TURNS, rounds=st.integers(1, 9), writes=st.booleans())
    def calm(self, who: set[int], turn: int, rounds: int, writes: bool) -> None:
        """As it goes when nothing goes wrong, but for a slow log perhaps; else few groups would ever be Stable."""
        for _ in range(rounds):
            for one in sorted(who):
                self.act(self.clients[one], turn)
            if writes:
                self.ctx.durable()
            self.listen()
            self.ctx.advance(1_000)

    @rule(one=CLIENTS, turn=TURNS)
    def proceed(self, one: int, turn: int) -> None:
        self.act(self.clients[one], turn)

    def act(self, client: Simulated, turn: int) -> None:
        stage, about, member_id = client.stage, client.client.generation_id, client.client.member_id
        call = client.proceed(turn)
        if call is None:
            return
        self.calls.append(call)
        if stage is Stage.JOINED:
            self.syncs.append((call, about, client.client.instance or member_id))
        elif stage is Stage.OUT:
            self.joins.append((call, client.client.instance))

    @rule(one=CLIENTS, how=st.sampled_from(["at once", "held", "the short way"]))
    def heartbeat(self, one: int, how: str) -> None:
        client = self.one_of(one, [client for client in self.clients if client.client.member_id])
        if client is None:
            return
        (member_id, generation_id), instance = client.now, client.client.instance
        if how == "the short way":
            self.check_short_way(member_id, generation_id, instance)
        else:
            call = client.heartbeat(2_000 if how == "held" else 0)
            self.calls.append(call)
            if not call.is_parked and call.error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.gone.add(member_id)

    def check_short_way(self, member_id: str, generation_id: int, instance: str | None) -> None:
        """What `is_well` takes upon itself `heartbeat` would have answered with 0."""
        request = HeartbeatRequest(
            group_id="g", generation_id=generation_id, member_id=member_id, group_instance_id=instance
        )
        if self.ctx.shard.is_well(request, self.ctx.now):
            assert self.ctx.heartbeat(("g", member_id, generation_id, instance)).error is ErrorCode.NONE

    @rule(one=CLIENTS, partition=st.integers(0, PARTITIONS - 1))
    def commit(self, one: int, partition: int) -> None:
        client = self.one_of(one, [client for client in self.clients if client.client.generation_id >= 0])
        if client is not None:
            self.note_commit({partition: self.offset()}, *client.now, client.client.instance)

    @rule(one=CLIENTS, how=st.sampled_from(["leaves", "restarts", "rejoins", "reconnects"]))
    def member_changes(self, one: int, how: str) -> None:
        client = self.one_of(one, [client for client in self.clients if client.client.member_id or client.parked])
        if client is None:
            return
        member_id = client.client.member_id
        if how == "restarts":
            self.note_join(client.restart(), client.client.instance)
        elif how == "rejoins":
            self.note_join(client.join(), client.client.instance)
        elif how == "leaves" and member_id:
            call = client.leave()
            self.calls.append(call)
            if not call.is_parked and call.reply.members and call.member_errors == [ErrorCode.NONE]:
                self.gone.add(member_id)
        elif how == "reconnects" and client.parked is not None:  # and sends again what it waits for
            client.disconnected()
            self.act(client, 0)

    # -- rude ones

    @rule(
        one=CLIENTS,
        which=st.integers(0, 5),
        what=st.sampled_from(["commit", "commit", "commit", "heartbeat", "sync", "join", "leave"]),
    )
    def a_past_self_speaks(self, one: int, which: int, what: str) -> None:
        client = self.one_of(one, [client for client in self.clients if client.past])
        if client is None:
            return
        member_id, generation_id = client.past[which % len(client.past)]
        instance = client.client.instance
        about = ("g", member_id, generation_id, instance)
        if what == "heartbeat":
            self.calls.append(self.ctx.heartbeat(about))
        elif what == "sync":
            self.calls.append(self.ctx.sync(about, {}))
        elif what == "join":
            self.note_join(self.ctx.join(member_id, instance=instance), None)
        elif what == "commit":
            self.note_commit({0: self.offset()}, member_id, generation_id, instance)
        else:
            self.calls.append(self.ctx.leave((member_id, instance)))

    @rule(
        member_id=st.sampled_from(["", "", "stranger"]),
        instance=st.sampled_from([None, "i0", "i1", "unheard"]),
        version=st.integers(0, 9),
        rebalance=st.sampled_from([-1, 0, 1, 60_000]),
        names=st.sampled_from([["range"], ["range", "range"], ["sticky", "range"], ["sticky"], [""], []]),
    )
    def a_stranger_joins(
        self, member_id: str, instance: str | None, version: int, rebalance: int, names: list[str]
    ) -> None:
        call = self.ctx.join(
            member_id, instance=instance, version=version, rebalance=rebalance, offered=protocols(*names)
        )
        self.note_join(call, instance if version >= 5 and not member_id else None)

    @rule(what=st.sampled_from(["remove", "guess", "standalone"]), one=CLIENTS, generation_id=st.integers(-1, 6))
    def a_stranger_meddles(self, what: str, one: int, generation_id: int) -> None:
        if what == "remove":
            self.calls.append(self.ctx.leave(("", f"i{one}"), ("stranger", None)))
        elif what == "guess":
            self.calls.append(self.ctx.heartbeat(("g", f"c{one}-{generation_id}", generation_id, None)))
        else:
            is_live = self.ctx.state is not State.EMPTY
            call = self.ctx.commit(offsets := {one % PARTITIONS: self.offset()})
            self.calls.append(call)
            self.commits.append(Commit(call, offsets, is_stale=is_live))

    @rule(one=CLIENTS, turn=TURNS)
    def the_leader_changes_its_mind(self, one: int, turn: int) -> None:
        """A second SyncGroup in the same generation, with another assignment."""
        leaders = [one for one in self.clients if one.members and one.client.generation_id == self.generation]
        client = self.one_of(one, leaders)
        if client is not None:
            shares = {name: assignment(*share) for name, share in assign(client.members, turn).items()}
            call = client.client.sync(shares)
            self.calls.append(call)
            self.syncs.append((call, client.client.generation_id, client.identity))

    # -- the log, the clock, the broker

    @rule(writes=st.sampled_from([1, 2, None]))
    def durable(self, writes: int | None) -> None:
        self.ctx.durable(writes)

    @precondition(lambda self: self.ctx.under_way)
    @rule(error=FAILURES)
    def writes_fail(self, error: ErrorCode) -> None:
        self.ctx.fail_writes(error)

    @rule(ms=TIMES)
    def advance(self, ms: int) -> None:
        self.ctx.advance(ms)

    @rule(how=st.sampled_from(["crash", "failover", "delete", "delete in vain"]))
    def catastrophe(self, how: str) -> None:
        if how == "crash":
            self.crash()
        elif how == "failover":
            self.failover()
        elif not self.ctx.under_way and self.ctx.state is State.EMPTY:
            self.delete(fails=how == "delete in vain")

    def crash(self) -> None:
        """What was not durable is lost, and with it whoever waited."""
        self.listen()
        self.calls = [call for call in self.calls if not call.is_parked]
        self.commits.clear()
        self.ctx.restart()
        self.after_restart()

    def failover(self) -> None:
        """The shard is unloaded in order: nobody waits in vain."""
        self.ctx.close()
        self.ctx.fail_writes(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert not any(call.is_parked for call in self.calls)
        self.listen()
        self.ctx.restart()
        self.after_restart()

    def after_restart(self) -> None:
        group = self.ctx.group()
        told = max((generation for generation, _ in self.owners), default=0)
        assert group.generation_id >= told, "a generation whose assignments were handed out is durable"
        self.state, self.generation, self.newest = group.state, group.generation_id, 0
        self.seen_events = len(self.ctx.events)
        self.gone.clear()
        self.joins.clear()
        self.syncs.clear()
        for client in self.clients:
            client.disconnected()
            if client.stage is Stage.WORKING:  # whoever asks again is told the same
                call = client.client.sync()
                self.syncs.append((call, client.client.generation_id, client.identity))

    def delete(self, fails: bool) -> None:
        call = self.ctx.delete_group()
        if fails:
            self.ctx.fail_writes()
            assert call.error is not ErrorCode.NONE
            return
        self.ctx.durable()
        assert call.error is ErrorCode.NONE
        self.acknowledged.clear()
        self.owners.clear()
        self.gone.clear()
        self.state, self.generation, self.newest = State.EMPTY, 0, 0
        self.ctx.commit(KEEPER)
        self.ctx.durable()

    # -- what must hold

    def one_of(self, one: int, eligible: list[Simulated]) -> Simulated | None:
        return eligible[one % len(eligible)] if eligible else None

    def offset(self) -> int:
        self.next_offset += 1
        return self.next_offset

    def note_join(self, call: Call, instance: str | None) -> None:
        self.calls.append(call)
        self.joins.append((call, instance))

    def note_commit(self, offsets: dict[int, int], member_id: str, generation_id: int, instance: str | None) -> None:
        self.listen()
        anybody_may = self.ctx.state is State.EMPTY and generation_id < 0
        is_stale = not anybody_may and (member_id in self.gone or generation_id < self.newest)
        call = self.ctx.commit(offsets, ("g", member_id, generation_id, instance))
        self.calls.append(call)
        self.commits.append(Commit(call, offsets, is_stale))

    def listen(self) -> None:
        """Takes note of all answers that have come."""
        for client in self.clients:
            client.listen()
        self.joins = [row for row in self.joins if not self.heard_join(*row)]
        self.syncs = [row for row in self.syncs if not self.heard_sync(*row)]
        self.commits = [row for row in self.commits if not self.heard_commit(row)]

    def heard_join(self, call: Call, instance: str | None) -> bool:
        if call.is_parked:
            return False
        reply = call.reply
        if reply.error_code == ErrorCode.NONE:
            self.newest = max(self.newest, reply.generation_id)
            if instance is not None:
                past = [client.past for client in self.clients if client.client.instance == instance]
                self.gone |= {member_id for rows in past for member_id, _ in rows} - {reply.member_id}
        return True

    def heard_sync(self, call: Call, generation_id: int, identity: str) -> bool:
        if call.is_parked:
            return False
        if call.error is ErrorCode.NONE and call.reply.assignment:
            for partition in partitions_in(call.reply.assignment):
                owner = self.owners.setdefault((generation_id, partition), identity)
                assert owner == identity, f"partition {partition} of generation {generation_id} has two owners"
        return True

    def heard_commit(self, commit: Commit) -> bool:
        if commit.call.is_parked:
            return False
        if commit.call.error is ErrorCode.NONE:
            assert not commit.is_stale, "a member that is gone, or of an old generation, has committed"
            self.acknowledged |= commit.offsets
        return True

    @invariant()
    def answers_are_consistent(self) -> None:
        if hasattr(self, "ctx"):
            self.listen()
            for partition in range(PARTITIONS):
                assert self.ctx.fetch_offset(partition) == self.acknowledged.get(partition, -1)

    @invariant()
    def states_and_generations_follow_the_rules(self) -> None:
        if not hasattr(self, "ctx"):
            return
        for event in self.ctx.events[self.seen_events :]:
            if isinstance(event, StateChanged):
                assert event.origin is self.state
                assert (event.origin, event.target) in TRANSITIONS
                ends = event.origin is State.PREPARING_REBALANCE
                assert event.generation_id == self.generation + ends
                self.state, self.generation = event.target, event.generation_id
        self.seen_events = len(self.ctx.events)
        group = self.ctx.group()
        assert (group.state, group.generation_id) == (self.state, self.generation)

    def teardown(self) -> None:
        if hasattr(self, "ctx"):
            self.ctx.holds_writes = False
            self.ctx.durable()
            self.ctx.advance(LONG_ENOUGH)
            assert not [call for call in self.calls if call.is_parked], "somebody waits for ever"
            assert self.ctx.state is State.EMPTY
            self.listen()
            self.answers_are_consistent()


_CALM: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def test_whatever_happens_to_a_group() -> None:
    run_state_machine_as_test(
        GroupMachine, settings=settings(max_examples=examples(300), stateful_step_count=40, **_CALM)
    )


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_whatever_happens_to_a_group_for_long() -> None:
    run_state_machine_as_test(GroupMachine, settings=settings(max_examples=20_000, stateful_step_count=120, **_CALM))
