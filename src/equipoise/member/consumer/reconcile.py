"""From what a member holds to its target: rules B5.3, B5.4 and B6 of docs/rules/consumer-members.md.

In Kafka: AbstractMembershipManager.maybeReconcile and AbstractMembershipManager.revokeAndAssign.

A reconciliation has two phases, each a callback in the member's queue: on_revoked, inside which the application's
offsets are committed, and on_assigned. It is under way from the moment its callbacks stand in the queue. It has begun
when the application runs the first of them: until then a newer target replaces it. Its end is the acknowledgement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.member.consumer.assignment import NO_PARTITIONS, NONE, ById, LocalAssignment, named
from equipoise.member.consumer.states import MemberState
from equipoise.member.step import Callback, CallbackKind

if TYPE_CHECKING:
    from equipoise.member.consumer.member import ConsumerMember


class Reconciliation:
    """What the member holds as far as the coordinator may know, its target, and the way between the two."""

    def __init__(self, member: ConsumerMember) -> None:
        self._member = member
        self.held = NONE  # acknowledged, or to be acknowledged next
        self.target = NONE
        self.under_way: LocalAssignment | None = None
        self.has_begun = False  # the application has heard of it
        self._taken = NO_PARTITIONS  # by a reconciliation that was interrupted when it had begun
        self._names: dict[bytes, str] = {}  # of topics that are held
        self._target_ids: frozenset[bytes] = frozenset()  # looked at with every input: there may be many partitions

    def reset(self) -> None:
        """Out of the group: nothing is held, and nothing is aimed at."""
        self.held = self.target = NONE
        self.interrupt()
        self._taken = NO_PARTITIONS
        self._names, self._target_ids = {}, frozenset()
        self._want_ids()

    def interrupt(self) -> None:
        """Its callbacks are gone from the queue. The application has what it was told of, until it gives it up."""
        if self.under_way is not None and self.has_begun:
            self._taken |= self.under_way.partitions
        self.under_way, self.has_begun = None, False

    @property
    def is_complete(self) -> bool:
        """Whether the member holds its target (AbstractMembershipManager.targetAssignmentReconciled)."""
        return self.held == self.target

    @property
    def claimed(self) -> ById:
        """Rule B4.2. What a heartbeat lists that has to list something: what is held, with what is being given up and
        what is being taken."""
        claimed = self.held.partitions | self._taken
        return claimed if self.under_way is None else claimed | self.under_way.partitions

    def take_target(self, partitions: ById) -> None:
        """Rule B5.3. The whole set that the member may have from now on; an empty one is one too
        (AbstractMembershipManager.processAssignmentReceived)."""
        member = self._member
        self.target = self.target.followed_by(partitions)
        self._target_ids = frozenset(one.topic_id for one in partitions)
        if not self.is_complete:
            member.transition(MemberState.RECONCILING)
        elif member.state in (MemberState.RECONCILING, MemberState.JOINING):
            self._drop()
            member.transition(MemberState.STABLE)

    # -- names

    def _name(self, topic_id: bytes) -> str | None:
        """Rule B6.2. By the metadata; else as the topic was called when the member got it
        (AbstractMembershipManager.findResolvableAssignmentAndTriggerMetadataUpdate)."""
        return self._member.subscription.name_of(topic_id) or self._names.get(topic_id)

    def _resolve(self) -> LocalAssignment:
        """Rule B6.2. The part of the target whose topics have names; the others are asked for by id. A topic that was
        made anew has the name of the old one: the old one goes first."""
        held = {name: topic_id for topic_id, name in self._names.items()}

        def is_free(topic_id: bytes) -> bool:
            name = self._name(topic_id)
            return name is not None and held.get(name, topic_id) == topic_id

        free = frozenset(one for one in self.target.partitions if is_free(one.topic_id))
        return LocalAssignment(self.target.local_epoch, free)

    def _want_ids(self) -> None:
        """Rule B12.3. Topics without a name, and with a pattern of the broker's all that are assigned."""
        subscription = self._member.subscription
        ids = self._target_ids
        if not subscription.regex:
            ids = frozenset(one for one in ids if subscription.name_of(one) is None)
        subscription.wanted_ids = ids

    # -- the way

    def go_on(self) -> None:
        """Rules B5.5 and B6.1 to B6.4. Begins, ends or replaces a reconciliation, if it is time for that
        (AbstractMembershipManager.maybeReconcile).

        None begins before an acknowledgement is answered. To the coordinator a partition that it does not list is
        given up, also one that the coordinator has given meanwhile: whoever took that would share it with its next
        owner.
        """
        self._want_ids()
        member = self._member
        if member.state is not MemberState.RECONCILING or member.is_in_callback:
            return
        if self.under_way is not None and (self.has_begun or self.under_way == self._resolve()):
            if not member.callbacks:
                self._complete(self.under_way)
            return
        self._drop()
        resolved = self._resolve()
        if resolved != self.held and not member.heartbeats.is_acknowledging:
            self._begin(resolved)

    def _drop(self) -> None:
        """What the application has not heard of, it need not hear of."""
        self._member.drop_callbacks()
        self.interrupt()

    def _begin(self, resolved: LocalAssignment) -> None:
        """Rules B6.3, B6.6 and B6.8. What is revoked is not read any more, before its offsets are committed; what is
        added is not read before on_assigned has run. Equal sets of different targets need no callbacks."""
        member = self._member
        names = {one.topic_id: self._name(one.topic_id) or "" for one in resolved.partitions}
        assigned = named(resolved.partitions, names)
        if self.held != NONE and assigned == member.assignment:
            self._complete(resolved)
            return
        revoked, added = member.assignment - assigned, assigned - member.assignment
        if revoked:
            member.callbacks.append(Callback(CallbackKind.REVOKED, revoked))
        member.gain(added)
        self.under_way = resolved

    def _complete(self, resolved: LocalAssignment) -> None:
        """Rule B6.11. The member holds it, and says so."""
        self.interrupt()
        self._taken = NO_PARTITIONS
        self._names = {one.topic_id: self._name(one.topic_id) or "" for one in resolved.partitions}
        self.held = resolved
        self._member.transition(MemberState.ACKNOWLEDGING)
