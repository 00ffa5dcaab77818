"""Random members, requests, losses, failures of the log, restarts and compactions.

After every step (`Stage.check`): I1, no partition has two owners; I2, indexes and epochs follow; I3, the log says what
memory has; and when all is quiet, the group converges. I10: no application owns a partition that another one owns.
"""

from __future__ import annotations

from typing import Any

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

from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord, encode_key
from tests.consumer_groups.stage import Member, Stage, settle
from tests.effort import examples

NAMES = ("a", "b", "c", "d", "e")
TOPICS = ("t", "u", "v")
FENCED = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}


class ConsumerGroups(RuleBasedStateMachine):
    """Clients that behave: they use a partition from when it is given to them until they say that they do not."""

    def __init__(self) -> None:
        super().__init__()
        self.members: dict[str, Member] = {}
        self.serial = 0

    @initialize(interval=st.sampled_from([0, 500]), timer=st.booleans(), strict=st.booleans())
    def begin(self, interval: int, timer: bool, strict: bool) -> None:
        config = {
            "group_consumer_assignment_interval_ms": interval,
            "group_consumer_assignment_timer": timer,
            "strict": strict,
        }
        self.stage = Stage(config, t=4, u=2, v=1)

    # -- members

    @rule(name=st.sampled_from(NAMES), topics=st.sets(st.sampled_from(TOPICS)), static=st.booleans())
    def join(self, name: str, topics: set[str], static: bool) -> None:
        member = self.members.get(name)
        if member is None:
            self.serial += 1
            member = self.stage.member(f"{name}-{self.serial}", instance=name if static else None)
        self.took(name, member, member.join(*sorted(topics)))

    @rule(name=st.sampled_from(NAMES), lost=st.booleans(), hold=st.booleans())
    def beat(self, name: str, lost: bool, hold: bool) -> None:
        if (member := self.members.get(name)) is not None:
            before = member.epoch, set(member.wanted)
            self.took(name, member, member.beat(hold_ms=1_000 if hold else 0))
            if lost and name in self.members:
                member.epoch, member.wanted = before
                self.took(name, member, self.full(member))

    @rule(name=st.sampled_from(NAMES), lost=st.booleans())
    def ack(self, name: str, lost: bool) -> None:
        if (member := self.members.get(name)) is not None:
            epoch = member.epoch
            self.took(name, member, member.ack())
            if lost and name in self.members:
                member.epoch = epoch
                self.took(name, member, self.full(member))

    def full(self, member: Member) -> Any:
        """After a lost answer a client says all it knows."""
        known = self.stage.group.members.get(member.member_id)
        names = sorted(known.subscribed_topic_names) if known is not None else []
        rows = member.rows(member.owned)
        return member.send(subscribed_topic_names=names, rebalance_timeout_ms=5_000, topic_partitions=rows)

    @rule(name=st.sampled_from(NAMES), topics=st.sets(st.sampled_from(TOPICS)))
    def subscribe(self, name: str, topics: set[str]) -> None:
        if (member := self.members.get(name)) is not None:
            self.took(name, member, member.send(subscribed_topic_names=sorted(topics)))

    @rule(name=st.sampled_from(NAMES), for_good=st.booleans())
    def leave(self, name: str, for_good: bool) -> None:
        if (member := self.members.pop(name, None)) is not None:
            member.owned = set()
            member.leave(-1 if for_good or member.instance is None else -2)

    @rule(name=st.sampled_from(NAMES))
    def die(self, name: str) -> None:
        """The process is gone, and with it what it used."""
        if (member := self.members.pop(name, None)) is not None:
            member.owned = set()

    def took(self, name: str, member: Member, answer: Any) -> None:
        """Who is fenced gives all up; who was answered owns what it was given, and keeps what it has to give up."""
        if answer is None:
            return
        if answer.error_code != ErrorCode.NONE:
            if answer.error_code in (FENCED | {ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID}):
                self.members.pop(name, None)
            member.owned = set()
            return
        self.members[name] = member
        member.owned |= member.wanted

    # -- the world

    @rule(ms=st.sampled_from([1, 300, 1_000, 6_000, 50_000]))
    def pass_time(self, ms: int) -> None:
        self.stage.advance(ms)
        self.forget_removed()

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(min_value=0, max_value=5))
    def change_topic(self, topic: str, count: int) -> None:
        old = self.stage.image.topic(topic)
        if old is None or count == 0 or count > old.partitions:
            self.stage.set_topics(**{topic: count})

    @rule()
    def restart(self) -> None:
        self.stage.restart()

    @rule(keep=st.integers(min_value=0))
    def compact(self, keep: int) -> None:
        """The head of the log loses what a later record of its head has replaced. Rule A9.3."""
        place = keep % (len(self.stage.log) + 1)
        head, last = self.stage.log[:place], dict[bytes, int]()
        for number, (key, _) in enumerate(head):
            last[encode_key(key)] = number
        kept: list[CoordinatorRecord] = [one for number, one in enumerate(head) if last[encode_key(one.key)] == number]
        self.stage.log = kept + self.stage.log[place:]
        assert self.stage.loaded().consumer_groups == self.stage.shard.consumer_groups

    @rule(name=st.sampled_from(NAMES), topics=st.sets(st.sampled_from(TOPICS), min_size=1), acks=st.booleans())
    def fail_write(self, name: str, topics: set[str], acks: bool) -> None:
        """A change is not written: nothing has happened, and what was built on it has not either. Rule A21.2."""
        before = self.stage.loaded().consumer_groups
        self.stage.holds_writes = True
        ghost = self.stage.member("ghost")
        ghost.join(*sorted(topics))
        member = self.members.get(name)
        if member is not None and acks:
            member.send(topic_partitions=member.rows(member.owned))
        self.stage.fail(writes=len(self.stage.under_way))
        self.stage.holds_writes = False
        assert self.stage.shard.consumer_groups == before
        self.stage.check()

    def forget_removed(self) -> None:
        """Who was removed finds out later; until then only fencing by silence can give its partitions to others."""
        group = self.stage.shard.consumer_groups.get("g")
        for name, member in list(self.members.items()):
            if group is None or member.member_id not in group.members:
                del self.members[name]

    @invariant()
    def no_application_owns_what_another_owns(self) -> None:
        """I10, of those that are members."""
        owned = [partition for member in self.members.values() for partition in member.owned]
        assert len(owned) == len(set(owned))

    @precondition(lambda self: bool(self.members))
    @rule()
    def converge(self) -> None:
        """When nothing happens any more, everybody has its target and all partitions have an owner."""
        self.stage.advance(50_000)
        self.members = {name: member for name, member in self.members.items() if self.is_member(member)}
        for name, member in list(self.members.items()):
            self.took(name, member, member.join(*TOPICS))
        self.stage.advance(1_000)
        for gone in [
            one for one in self.stage.group.members if one not in {m.member_id for m in self.members.values()}
        ]:
            del gone
        if not self.members:
            return
        settle(self.stage, *self.members.values())
        held = [partition for member in self.members.values() for partition in member.wanted]
        wanted = {(t.topic_id, number) for t in self.stage.image.topics.values() for number in range(t.partitions)}
        assert len(held) == len(set(held))
        assert set(held) == wanted

    def is_member(self, member: Member) -> bool:
        group = self.stage.shard.consumer_groups.get("g")
        return group is not None and member.member_id in group.members


def test_random_histories() -> None:
    run_state_machine_as_test(
        ConsumerGroups,
        settings=settings(
            max_examples=examples(60), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
