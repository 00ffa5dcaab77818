"""mode=faithful: the rebalance of Kafka 0.8 to 1.1 as it was, its weaknesses included.

| weakness              | where                                | what comes of it                                      |
|-----------------------|--------------------------------------|-------------------------------------------------------|
| stop of the world     | decide, release_partition_ownership  | every change releases every partition of every member |
| early offsets         | rebalance                            | an offset is read before the owner before has written |
|                       |                                      | its last: records are read twice                      |
| claims one by one     | reflect_partition_ownership_decision | others collide with nodes that are deleted again      |
| same text, same owner | _create_owner                        | a node of a dead session is taken for one's own       |
| deletes by path       | release_partition_ownership          | a node that is another's by now is deleted            |
| unfenced commits      | commit_offsets                       | a late commit of an owner before counts               |
| zombie owner          | handle_state_changed                 | without a connection records are handed out on        |
| forgotten nodes       | reset_state                          | fetchers and nodes of before a lost session stay      |
| blind back-off        | synced_rebalance                     | all wait the same time, and none watches the node     |
| registered non-owner  | failed                               | after the last attempt a member is counted, and idle  |
| untold strategy       | registration                         | members with other strategies leave partitions unread |

The operations on ZooKeeper are repeated for ever, after a lost session too: what began in a dead session is completed
in the next. That was the client's doing (ZkClient), and is the runner's.
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.member.partitions import TopicPartition, listed
from equipoise.zookeeper.config import ZooKeeperConsumerConfig
from equipoise.zookeeper.protocol import actions
from equipoise.zookeeper.protocol.actions import ConsumerEvent
from equipoise.zookeeper.protocol.assignment import Decision, share_of
from equipoise.zookeeper.protocol.layout import Registration
from equipoise.zookeeper.protocol.nodes import Create, Delete, GetData
from equipoise.zookeeper.protocol.policy import RebalancePolicy, SessionState, described
from equipoise.zookeeper.protocol.steps import Steps, Synchronized
from equipoise.zookeeper.protocol.views import AssignmentContext, Gate, Plan


class FaithfulPolicy(RebalancePolicy):
    """The policy of one consumer in faithful mode. Methods have the names that Kafka's classes had."""

    def __init__(self, config: ZooKeeperConsumerConfig, subscribed: Registration, gate: Gate, now_ms: int) -> None:
        super().__init__(config, subscribed, gate, now_ms)
        self._is_lost = False

    def decide(self, context: AssignmentContext, owned: Mapping[TopicPartition, str], *, stays: bool = True) -> Plan:
        """Everything moves, also what comes back to the same thread."""
        decision = self.config.strategy.assign(context.topics, context.partitions)
        return Plan(decision, frozenset(owned), share_of(self.consumer_id, decision))

    # -- the session

    def handle_state_changed(self, state: SessionState) -> ConsumerEvent | None:
        """A lost connection is nothing; only a new session is."""
        was_lost, self._is_lost = self._is_lost, state == "LOST" or (self._is_lost and state != "CONNECTED")
        return ConsumerEvent.SESSION if was_lost and state == "CONNECTED" else None

    def handle_new_session(self) -> Steps[None]:
        self.reset_state()
        yield from self.register_consumer_in_zk()
        yield from self.synced_rebalance()

    def reset_state(self) -> None:
        """Neither the nodes in ZooKeeper nor the fetchers are touched, and no lock is taken."""
        self.topic_registry = {}

    def failed(self, error: Exception, undone: set[ConsumerEvent]) -> Steps[None]:
        """It is told, and that is all: nothing is read until something else happens."""
        yield from actions.Log(f"{self.consumer_id}: {described(error)}")
        for event in undone:
            yield from actions.Notify(event)

    # -- the rebalance

    def synced_rebalance(self) -> Steps[None]:
        yield from Synchronized(self._synced_rebalance())

    def _synced_rebalance(self) -> Steps[None]:
        for _ in range(self.config.rebalance_max_retries):
            if self.is_closing or (yield from self.attempt()):
                return
            yield from self.close_fetchers()
            yield from actions.Sleep(self.config.rebalance_backoff_ms)
        if not self.is_closing:
            raise self.rebalance_failed()

    def forgives(self, error: Exception) -> bool:
        """Whatever it is, the next attempt may do."""
        return True

    def rebalance(self) -> Steps[bool]:
        brokers = yield from self.group.brokers()
        yield from self.group.members([self.consumer_id])  # missing: the attempt fails, and nothing is given up
        if not brokers:
            yield from actions.WatchBrokers()  # only if there were none once; from then on for ever
            return True
        yield from self.close_fetchers()
        yield from actions.BeforeReleasingPartitions(frozenset(self.topic_registry))
        yield from self.release_partition_ownership()
        yield from actions.ConnectFetchers(brokers)
        context = yield from self.group.context(self.config.exclude_internal_topics)
        plan = self.decide(context, self.threads())
        offsets = yield from self.fetch_offsets(plan.claim)
        if not (yield from self.reflect_partition_ownership_decision(plan.claim)):
            return False
        self.topic_registry = dict(self.add_partition_topic_info(plan.claim, offsets))
        yield from actions.BeforeStartingFetchers(self.consumer_id, plan.decision)
        yield from actions.UpdateFetcher(self.topic_registry)
        return True

    def close_fetchers(self) -> Steps[None]:
        """Stops reading everything, and commits if commits are automatic."""
        yield from actions.UpdateFetcher()
        if self.config.auto_commit_enable:
            yield from self.commit_offsets()

    def release_partition_ownership(self) -> Steps[None]:
        """A delete by path: the owner of the node is not compared."""
        for partition in sorted(self.topic_registry):
            yield from Delete(self.group.paths.owner(partition))
            del self.topic_registry[partition]

    def reflect_partition_ownership_decision(self, share: Decision) -> Steps[bool]:
        """One by one, on with the rest after a conflict, and then back with those that were made."""
        made = []
        for partition, thread in share.items():
            if (yield from self._create_owner(partition, thread)):
                made.append(partition)
        if len(made) == len(share):
            return True
        for partition in made:
            yield from Delete(self.group.paths.owner(partition))
        others = listed(share.keys() - set(made))
        yield from actions.Log(f"{self.consumer_id}: others own {others}", is_warning=False)
        return False

    def _create_owner(self, partition: TopicPartition, thread: str) -> Steps[bool]:
        """ZkUtils.createEphemeralPathExpectConflict: the same text is its own, whichever session holds the node."""
        path = self.group.paths.owner(partition)
        if (yield from Create(path, thread.encode(), is_ephemeral=True)):
            return True
        (node,) = yield from GetData((path,))
        return node is not None and node.data == thread.encode()

    # -- offsets

    def commit_offsets(self) -> Steps[None]:
        """Ownership is not checked, and no lock is taken."""
        offsets = yield from actions.Consumed(list(self.topic_registry.values()))
        if self.config.in_kafka:
            yield from actions.CommitToKafka(offsets)
        if not self.config.in_zookeeper:
            return
        for partition, offset in offsets.items():
            if self.checkpointed.get(partition) != offset:
                yield from self.group.set_offset(partition, offset)
                self.checkpointed[partition] = offset
