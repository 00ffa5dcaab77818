"""mode=safe: the same protocol and nodes, without the weaknesses that faithful.py lists.

- Ownership is claimed in one transaction, which also raises the epoch of each partition: the fencing token that goes
  with every offset written to ZooKeeper. Only the difference moves; what stays is read on.
- Offsets are read after the claim, when the owner before has written its last, and not before it.
- Nothing is handed out or committed while the session is in doubt; after a lost one the consumer has another id.
- A blocked claim waits for the node that blocks it, not for a time; a failed rebalance is tried again by itself.
- Strategy and view of internal topics stand in the registration. The first member decides for the group: a member that
  differs is refused, and a member of the old kind, which does not ask, is not counted.
- Every member looks for partitions without an owner from time to time.

The order of steps is what makes it safe. A fetcher stops before the node is given up. The last offset and the end of
ownership are one transaction. Offsets go to ZooKeeper, which checks the epoch, before they go to Kafka, which does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from equipoise.member.partitions import TopicPartition, listed
from equipoise.wire.errors import EquipoiseError
from equipoise.wire.text import printable
from equipoise.zookeeper.config import ZooKeeperConsumerConfig
from equipoise.zookeeper.protocol import actions
from equipoise.zookeeper.protocol.actions import ConsumerEvent
from equipoise.zookeeper.protocol.assignment import Decision, Members, Strategy, share_of
from equipoise.zookeeper.protocol.errors import InconsistentStrategyError, NotRegisteredError, OwnershipLostError
from equipoise.zookeeper.protocol.fencing import FencedNodes
from equipoise.zookeeper.protocol.layout import Registration
from equipoise.zookeeper.protocol.nodes import Delete, Exists, SessionId
from equipoise.zookeeper.protocol.policy import IDLE_MS, RebalancePolicy, SessionState, described
from equipoise.zookeeper.protocol.steps import Steps, Synchronized
from equipoise.zookeeper.protocol.views import (
    AssignmentContext,
    Gate,
    Offsets,
    PartitionTopicInfo,
    Plan,
    RegisteredConsumer,
)

_SETTLES = 10  # times rebalance.settle.ms, after which changes that never end are waited for no longer


class SafePolicy(RebalancePolicy):
    """The policy of one consumer in safe mode. It moves only what goes to another thread."""

    gives_way_to_sessions = True

    def __init__(self, config: ZooKeeperConsumerConfig, subscribed: Registration, gate: Gate, now_ms: int) -> None:
        super().__init__(config, subscribed, gate, now_ms)
        self.orphans: frozenset[TopicPartition] = frozenset()
        self._fenced = FencedNodes(self.group)
        self._context = AssignmentContext({}, {}, {})  # of the last attempt
        self._members: dict[str, RegisteredConsumer] = {}  # of safe mode, whose ids and registrations never change
        self._unreleased: dict[TopicPartition, PartitionTopicInfo] = {}  # read no more; their nodes are still there
        self._doubtful: set[TopicPartition] = set()  # being claimed; no doubt remains of what is in the registry
        self._blocker = ""  # the owner node on which the last claim failed
        self._retry_at: int | None = None
        self._look_at = now_ms + config.patience_ms
        self._unowned_since: dict[TopicPartition, int] = {}

    # -- the decision

    def decide(self, context: AssignmentContext, owned: Mapping[TopicPartition, str], *, stays: bool = True) -> Plan:
        """Only what goes to another thread moves. InconsistentStrategyError: this consumer must leave the group."""
        if self.consumer_id not in context.members:
            raise NotRegisteredError(f"consumer {self.consumer_id} is not registered")
        decision = self.config.strategy.assign(self._counted(context), context.partitions)
        share = share_of(self.consumer_id, decision)
        kept = {one for one, thread in owned.items() if stays and share.get(one) == thread}
        return Plan(
            decision, frozenset(owned.keys() - kept), {one: thread for one, thread in share.items() if one not in kept}
        )

    def _counted(self, context: AssignmentContext) -> Members:
        """The members that share as the group does: as the first of them."""
        self._check_strategies(context.members)
        differing = self._differing(context)
        return {key: topics for key, topics in context.topics.items() if key not in differing}

    def _differing(self, context: AssignmentContext) -> set[str]:
        mine = self.config.strategy
        return {key for key, one in context.members.items() if not mine.agrees_with(one.registration.strategy)}

    def _check_strategies(self, members: Mapping[str, RegisteredConsumer]) -> None:
        """The first member decides; in an empty group, the next that comes."""
        if not members:
            return
        first = min(members, key=lambda key: members[key].created)
        deciding = members[first].registration.strategy
        if not self.config.strategy.agrees_with(deciding):
            raise InconsistentStrategyError(self._refusal(first, deciding))

    def _refusal(self, first: str, deciding: Strategy | None) -> str:
        mine, group = self.config.strategy, self.config.group_id
        theirs = (
            "does not tell its strategy (mode=faithful, or an old client)" if deciding is None else f"has {deciding}"
        )
        return (
            f"{self.consumer_id} has partition.assignment.strategy={mine}, but the first member of group {group}, "
            f"{first}, {theirs}: together they can leave partitions unread without any error. Give all members of the "
            "group the same strategy, or this one another group.id"
        )

    # -- members

    def new_consumer_id(self) -> Steps[str]:
        """Never the same twice: a node of an old session can be told from one of the new."""
        given, unique = self.config.consumer_id, (yield from actions.UniqueName())
        return f"{self.config.group_id}_{f'{given}-{unique[-8:]}' if given else unique}"

    def join(self) -> Steps[None]:
        """A consumer that would be refused does not register: the others do not rebalance for it."""
        self.consumer_id = yield from self.new_consumer_id()
        context = yield from self.group.steady_context(self.config.exclude_internal_topics)
        self._check_strategies(context.members)
        yield from self.register_consumer_in_zk()

    def registration(self, now_ms: int) -> Registration:
        told = self.config.strategy, self.config.exclude_internal_topics
        return replace(super().registration(now_ms), strategy=told[0], exclude_internal=told[1])

    # -- the session

    def handle_state_changed(self, state: SessionState) -> ConsumerEvent | None:
        """In doubt at once, for the server may soon give the partitions to others; back only after a look."""
        if state == "CONNECTED":
            return ConsumerEvent.SESSION
        self.gate.shut()
        return None

    def handle_new_session(self) -> Steps[None]:
        yield from Synchronized(self._handle_new_session(self.gate.interruptions))

    def _handle_new_session(self, interruptions: int) -> Steps[None]:
        holds_everything = yield from self._holds_everything()
        if not holds_everything:
            yield from self._reset_state()
            yield from self.group.unregister(self.consumer_id)  # of this session it would be counted on
            self.consumer_id = yield from self.new_consumer_id()
            yield from self.register_consumer_in_zk()
        yield from actions.WatchMembers()
        yield from actions.OpenGate(interruptions)
        if holds_everything:
            yield from actions.Notify(ConsumerEvent.TOPICS)  # whatever was left undone meanwhile
            yield from actions.Notify(ConsumerEvent.REBALANCE)
        else:
            yield from self.synced_rebalance()

    def _holds_everything(self) -> Steps[bool]:
        """Whether this session has the consumer's node and all of its partitions."""
        paths = [self.group.paths.registration(self.consumer_id), *map(self.group.paths.owner, self.topic_registry)]
        stats = yield from Exists(tuple(paths))
        session = yield from SessionId()
        return all(stat is not None and stat.ephemeral_owner == session for stat in stats)

    def _reset_state(self) -> Steps[None]:
        """All is lost: nothing is committed, since others may have read on."""
        yield from actions.UpdateFetcher()
        self._doubtful |= self.topic_registry.keys() | self._unreleased.keys()
        self.topic_registry = {}
        self._unreleased = {}
        self.checkpointed = {}

    # -- the executor

    def handle(self, events: set[ConsumerEvent]) -> Steps[None]:
        now = yield from actions.Now()
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None
            events.add(ConsumerEvent.SESSION)
        if not (self.gate.is_open or ConsumerEvent.SESSION in events):
            return  # anything would wait for the server; when it is back, all is looked at
        yield from super().handle(events)
        if now >= self._look_at:
            self._look_at = now + self.config.patience_ms // 2
            yield from self._look_for_orphans()

    def idle_ms(self, now: int) -> int:
        if not self.gate.is_open:
            return IDLE_MS
        due = [self._look_at] + ([] if self._retry_at is None else [self._retry_at])
        return max(0, min(super().idle_ms(now), min(due) - now))

    def failed(self, error: Exception, undone: set[ConsumerEvent]) -> Steps[None]:
        """Everything is looked at again, soon. A consumer that does not fit leaves, and the application hears why."""
        yield from actions.Log(f"{self.consumer_id}: {described(error)}")
        if isinstance(error, InconsistentStrategyError):
            yield from actions.Abandon(error)
            return
        again = (yield from actions.Now()) + (yield from actions.Jitter(self.config.rebalance_backoff_ms))
        self._retry_at = min(again, self._retry_at or again)  # failures that follow each other do not put it off

    # -- the rebalance

    def synced_rebalance(self) -> Steps[None]:
        yield from Synchronized(self._synced_rebalance())

    def _synced_rebalance(self) -> Steps[None]:
        yield from self._settle()
        deadline = (yield from actions.Now()) + self.config.patience_ms
        last = self.attempts + self.config.rebalance_max_retries
        while not self.is_closing:
            self._blocker = ""
            if (yield from self.attempt()) or (yield from actions.IsPending(ConsumerEvent.SESSION)):
                return
            if self.attempts >= last and (yield from actions.Now()) >= deadline:  # changes may have made them many
                raise self.rebalance_failed()
            pause = yield from actions.Jitter(self.config.rebalance_backoff_ms)
            yield from actions.AwaitRelease(self._blocker, pause)

    def _settle(self) -> Steps[None]:
        """One rebalance for changes that come together."""
        quiet = self.config.rebalance_settle_ms
        limit = (yield from actions.Now()) + _SETTLES * quiet
        while quiet and not self.is_closing and not (yield from actions.AwaitQuiet(quiet)):
            if (yield from actions.Now()) >= limit:
                return

    def forgives(self, error: Exception) -> bool:
        is_known = isinstance(error, EquipoiseError) and not isinstance(error, InconsistentStrategyError)
        return is_known and not self.is_closing

    def rebalance(self) -> Steps[bool]:
        brokers = yield from self.group.brokers()
        if not brokers:
            yield from actions.WatchBrokers()
            return True
        yield from self._clear_doubtful()
        self._context = context = yield from self._read_context()
        if self.consumer_id not in context.members:
            # The session has ended, or the node was deleted by hand: all that is held is looked at.
            yield from actions.Notify(ConsumerEvent.SESSION)
            return False
        plan = self.decide(context, self.threads(), stays=(yield from actions.ReachesBrokers(brokers)))
        yield from self._tell_differing(context)
        yield from self._release(plan.release)
        yield from actions.ConnectFetchers(brokers)
        if plan.claim and not (yield from self._claim(plan.claim)):
            return False
        yield from actions.BeforeStartingFetchers(self.consumer_id, plan.decision)
        yield from actions.UpdateFetcher(self.topic_registry)
        return True

    def _read_context(self) -> Steps[AssignmentContext]:
        """A registration of safe mode is read once, those of the old kind every time: their ids may come back."""
        context = yield from self.group.context(self.config.exclude_internal_topics, self._members)
        self._members = {key: one for key, one in context.members.items() if one.registration.strategy is not None}
        return context

    def _tell_differing(self, context: AssignmentContext) -> Steps[None]:
        if differing := self._differing(context):
            names = printable(", ".join(sorted(differing)))
            yield from actions.Log(f"group {self.config.group_id} does not count {names}: not of its strategy")

    # -- giving up

    def _release(self, partitions: frozenset[TopicPartition]) -> Steps[None]:
        given = {key: info for key, info in self.topic_registry.items() if key in partitions}
        if given:
            keep = {key: info for key, info in self.topic_registry.items() if key not in given}
            yield from actions.UpdateFetcher(keep)
            self._unreleased |= given
            self.topic_registry = keep
            yield from actions.BeforeReleasingPartitions(frozenset(given))
        if self._unreleased:
            yield from self.release_partition_ownership()

    def release_partition_ownership(self) -> Steps[None]:
        """Each with its last offset, in one transaction."""
        infos = list(self._unreleased.values())
        offsets: Offsets = {}
        if self.config.auto_commit_enable:
            consumed = yield from actions.Consumed([info for info in infos if self._exists(info.partition)])
            offsets = dict(consumed)
        lost: set[TopicPartition] = set()
        if self.config.in_kafka:
            lost |= yield from self._commit([info for info in infos if info.partition in offsets], offsets)
            offsets = {}
        lost |= yield from self._write([info for info in infos if info.partition not in lost], offsets, is_release=True)
        self._unreleased = {}
        for info in infos:
            self.checkpointed.pop(info.partition, None)
        if lost:
            yield from actions.Log(f"{self.consumer_id} no longer owned {listed(lost)}, and wrote no offsets")

    def _exists(self, partition: TopicPartition) -> bool:
        """Kafka takes no offsets of a topic that was deleted."""
        return partition.partition in self._context.partitions.get(partition.topic, ())

    # -- claiming

    def _claim(self, take: Decision) -> Steps[bool]:
        """All of these, or none. False: `_blocker` is in the way."""
        self._doubtful = set(take)
        claim = yield from self._fenced.claim(self.consumer_id, take)
        self._blocker = claim.blocker
        if claim.tokens is not None:
            offsets = yield from self.fetch_offsets(take)
            infos = self.add_partition_topic_info(take, offsets, claim.tokens)
            self.topic_registry = {**self.topic_registry, **infos}
        self._doubtful = set()
        return claim.tokens is not None

    def _clear_doubtful(self) -> Steps[None]:
        """Nodes of a claim whose outcome was never known, or of which nothing came: if there are any, they are ours."""
        if not self._doubtful:
            return
        mine = yield from SessionId()
        sessions = yield from self.group.owner_sessions(self._doubtful)
        for partition in [partition for partition, session in sessions.items() if session == mine]:
            yield from Delete(self.group.paths.owner(partition))
        self._doubtful = set()

    # -- offsets

    def commit_offsets(self) -> Steps[None]:
        """Raises OwnershipLostError for what others own by now; the rest is committed."""
        yield from Synchronized(self._commit_offsets())

    def _commit_offsets(self) -> Steps[None]:
        if not self.gate.is_open:
            raise OwnershipLostError(f"{self.consumer_id} has no session at the moment: nothing was committed")
        offsets = yield from actions.Consumed(list(self.topic_registry.values()))
        lost = yield from self._commit([self.topic_registry[partition] for partition in offsets], offsets)
        if lost:
            yield from actions.Notify(ConsumerEvent.REBALANCE)
            raise OwnershipLostError(f"{self.consumer_id} no longer owns {listed(lost)}: others have taken them over")

    def _commit(self, infos: Sequence[PartitionTopicInfo], offsets: Offsets) -> Steps[set[TopicPartition]]:
        """Those that were not committed, because they are others' by now.

        Kafka checks no epoch here. So ZooKeeper comes first: Kafka never sees what ZooKeeper refuses. What Kafka takes
        late is not above what ZooKeeper has, and the larger counts. With offsets in Kafka alone the consumer looks at
        the epochs first, which leaves the moment between the look and the commit.
        """
        if self.config.in_zookeeper:
            changed = {key: at for key, at in offsets.items() if self.checkpointed.get(key) != at}
            writing = [info for info in infos if info.partition in changed]
            lost = yield from self._write(writing, changed, is_release=False)
        else:
            lost = set(offsets) - (yield from self._fenced.held(infos))
        if self.config.in_kafka:
            yield from actions.CommitToKafka({key: offset for key, offset in offsets.items() if key not in lost})
        return lost

    def _write(
        self, infos: Sequence[PartitionTopicInfo], offsets: Offsets, *, is_release: bool
    ) -> Steps[set[TopicPartition]]:
        """What ZooKeeper has already is not written again."""
        changed = {key: at for key, at in offsets.items() if self.checkpointed.get(key) != at}
        lost = yield from self._fenced.write(infos, changed, is_release=is_release)
        self.checkpointed |= {key: at for key, at in offsets.items() if key not in lost}
        return lost

    # -- partitions without an owner

    def _look_for_orphans(self) -> Steps[None]:
        """Without an owner for longer than any rebalance takes: told, and a rebalance tried."""
        context = yield from self.group.context(self.config.exclude_internal_topics, self._members)
        unowned = yield from self.group.unowned(context.partitions)
        if self.consumer_id not in context.members or unowned & self.topic_registry.keys():
            # Nodes of this consumer were deleted by hand: all that is held is looked at.
            yield from actions.Notify(ConsumerEvent.SESSION)
        now = yield from actions.Now()
        self._unowned_since = {partition: self._unowned_since.get(partition, now) for partition in unowned}
        patience = self.config.patience_ms
        self.orphans = frozenset(one for one, since in self._unowned_since.items() if now - since >= patience)
        if self.orphans:
            group = self.config.group_id
            yield from actions.Log(
                f"group {group}: nobody owns {listed(self.orphans)}, for {patience / 1000:g} s at least; "
                f"see `equipoise zookeeper explain {group}`"
            )
            yield from actions.Notify(ConsumerEvent.REBALANCE)
