"""What a heartbeat says, and when one is due: rules B3 and B4 of docs/rules/consumer-members.md.

In Kafka: AbstractHeartbeatRequestManager, ConsumerHeartbeatRequestManager.HeartbeatState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.member.consumer.assignment import NONE, LocalAssignment, rows
from equipoise.member.step import NEVER
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from equipoise.member.consumer.member import ConsumerMember

LEAVE_EPOCH = -1  # for good
STATIC_LEAVE_EPOCH = -2  # a static member may be back


class SentFields:
    """What the coordinator has been told since the last failure; None: it may know nothing of it."""

    def __init__(self) -> None:
        self.rebalance_timeout_ms: int | None = None
        self.topics: frozenset[str] | None = None
        self.regex: str | None = None
        self.server_assignor: str | None = None
        self.held: LocalAssignment | None = None


class Heartbeats:
    """The heartbeats of one member."""

    def __init__(self, member: ConsumerMember) -> None:
        self._member = member
        self.interval_ms = member.config.heartbeat_interval_ms  # until the coordinator has set one
        self.in_flight: ConsumerGroupHeartbeatRequest | None = None
        self._overtaken: list[ConsumerGroupHeartbeatRequest] = []
        self._acknowledged = NONE  # the last that was listed as held
        self._is_urgent = False  # does not wait for the one in flight
        self._sent = SentFields()
        self._due = NEVER

    # -- when

    def begin(self, now: int) -> None:
        """Rule B3.4. The member joins: at once, with all that there is to say."""
        self.stop()
        self._acknowledged = NONE
        self._due = now

    def stop(self) -> None:
        """Out of the group there are none (rule B3.1)."""
        self.give_up()
        self._due = NEVER

    def give_up(self) -> None:
        """Rule B3.7. Whatever was under way will not be answered."""
        self.forget()
        self.in_flight = None
        self._overtaken.clear()

    def was_overtaken(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Rule B3.10. Whether the answer is to a heartbeat that another one has overtaken; asked once for each."""
        before = len(self._overtaken)
        self._overtaken = [one for one in self._overtaken if one is not request]
        return len(self._overtaken) < before

    def forget(self) -> None:
        """Rule B3.7. The coordinator may not have heard the last one, or another coordinator may answer the next: that
        one says all (ConsumerHeartbeatRequestManager.HeartbeatState.reset)."""
        self._sent = SentFields()

    def expedite(self) -> None:
        """The next one leaves when it can."""
        self._due = min(self._due, 0)

    def ask_for_epoch(self) -> None:
        """Rule B11.2. The next one leaves now: its answer has the epoch that the coordinator counts on."""
        self.expedite()
        self._is_urgent = True

    def is_due(self, now: int) -> bool:
        """Rules B3.3 and B3.4. One at a time: at the interval, and at once if there is news
        (AbstractHeartbeatRequestManager.poll)."""
        if self.in_flight is not None:
            return self._must_overtake()
        return now >= self._due or self._has_news()

    def _must_overtake(self) -> bool:
        """Rule B3.10. A broker may hold the one in flight for seconds: neither a new subscription nor a request that
        was refused for its epoch waits for that."""
        sent, subscription = self._sent, self._member.subscription
        if sent.topics is None or self._member.is_joining or not subscription.is_active:
            return False
        return self._is_urgent or subscription.topics != sent.topics or subscription.regex != sent.regex

    def heard(self, interval_ms: int, now: int) -> None:
        """Rule B3.6. Another interval counts from now on; one that is not positive is none
        (HeartbeatRequestState.updateHeartbeatIntervalMs)."""
        if interval_ms > 0 and interval_ms != self.interval_ms:
            self.interval_ms = interval_ms
            self._due = now + interval_ms

    def next_deadline(self) -> int:
        """Of the interval; never, while one is in flight."""
        return NEVER if self.in_flight is not None else self._due

    # -- what

    def _has_news(self) -> bool:
        """Whether the coordinator has to know something that it has not been told. Java waits for the interval with a
        new subscription."""
        sent, subscription = self._sent, self._member.subscription
        if not subscription.is_active:
            return False
        return subscription.topics != sent.topics or subscription.regex != sent.regex or self._must_acknowledge()

    @property
    def has_acknowledged(self) -> bool:
        """Whether the coordinator has been told of what is held."""
        return self._sent.held == self._member.reconciliation.held

    @property
    def is_acknowledging(self) -> bool:
        """Rule B5.5. Whether a list of partitions is under way to the coordinator, or is to be sent."""
        is_under_way = self.in_flight is not None and self.in_flight.topic_partitions is not None
        return is_under_way or not self.has_acknowledged

    def _must_acknowledge(self) -> bool:
        """Rules B4.1 and B4.2. What is held has changed. Offsets that on_revoked has committed go first: from then on
        others begin there."""
        return not self.has_acknowledged and not self._member.commits.are_owed

    def build(self, now: int) -> ConsumerGroupHeartbeatRequest:
        """Rule B4.4. All of it at a join and after a failure; later only what has changed
        (ConsumerHeartbeatRequestManager.HeartbeatState.buildRequestData)."""
        member = self._member
        request = self._new(member.member_epoch)
        if member.is_joining:
            request.rack_id = member.config.client_rack
        if self.in_flight is not None:
            self._overtaken.append(self.in_flight)
        if member.is_joining or self.in_flight is not None:
            self.forget()
        sent = self._sent
        if sent.rebalance_timeout_ms is None:
            request.rebalance_timeout_ms = sent.rebalance_timeout_ms = member.config.max_poll_interval_ms
        if sent.server_assignor is None:
            request.server_assignor = sent.server_assignor = member.config.server_assignor
        self._add_subscription(request)
        self._add_partitions(request)
        self.in_flight = request
        self._is_urgent = False
        self._due = now + self.interval_ms
        return request

    def _add_partitions(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """Rule B4.2. After a failure an old epoch passes only with a list: while commits go first, it is that of the
        last acknowledgement, and nothing is given up by it."""
        sent, reconciliation = self._sent, self._member.reconciliation
        if self._must_acknowledge():
            sent.held = self._acknowledged = reconciliation.held
            request.topic_partitions = rows(reconciliation.claimed)
        elif sent.held is None:
            sent.held = self._acknowledged
            request.topic_partitions = rows(self._acknowledged.partitions | reconciliation.claimed)

    def _add_subscription(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """Rule B4.5. A set of topics has no order. A pattern that is gone is said to be gone in every full request:
        the coordinator may not have heard of it."""
        subscription, sent = self._member.subscription, self._sent
        if not subscription.is_active:  # it leaves
            return
        if subscription.topics != sent.topics:
            sent.topics = subscription.topics
            request.subscribed_topic_names = sorted(subscription.topics)
        if subscription.regex != sent.regex:
            sent.regex = subscription.regex
            request.subscribed_topic_regex = subscription.regex

    def build_leave(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """Rules B10.3 and B10.4. The last one: -1, or -2 with the instance id."""
        return self._new(epoch)

    def _new(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        config = self._member.config
        return ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=self._member.member_id,
            member_epoch=epoch,
            instance_id=config.group_instance_id,
        )
