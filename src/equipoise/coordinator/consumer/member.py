"""A member of a `consumer` group, as a value: "changed" is `!=`, and undoing a change is an assignment. Rule A23.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from equipoise.coordinator.consumer.states import MemberState
from equipoise.coordinator.metadata import TopicPartition
from equipoise.coordinator.reasons import Who
from equipoise.wire.uuids import short

Assigned = Mapping[TopicPartition, int]  # with the epoch at which each was assigned (KIP-1251); never changed in place
NOTHING: Assigned = {}
LEFT_EPOCH = -1  # in a request: the member leaves; in a group: its current assignment has a tombstone
_UUID_LENGTH = 36
STATIC_LEFT_EPOCH = -2  # a static member has left for a while


class ClassicMetadata(NamedTuple):
    """What a member of the classic protocol said in its JoinGroup. Kafka: ClassicMemberMetadata of record 5."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # name and metadata, in order of preference


class ConsumerGroupMember(NamedTuple):
    """A member. Its first part is record 5, its second record 8. Rule A4. Kafka: ConsumerGroupMember.

    `classic` is there for a member that speaks the classic protocol inside the group, and None for all others: a
    ConsumerGroupHeartbeat takes it away, a JoinGroup sets it (rule A4.1).
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    # -- the current assignment
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assigned = NOTHING
    revoking: Assigned = NOTHING

    @property
    def who(self) -> Who:
        """The member as events and the journal name it."""
        return Who(self.member_id, self.client_id, self.client_host, self.instance_id)

    @property
    def is_away(self) -> bool:
        """A static member that has left for a while. Rule A10.2."""
        return self.member_epoch == STATIC_LEFT_EPOCH

    def metadata(self) -> dict[str, Any]:
        """What record 5 and ConsumerGroupDescribe say of it in the same words, names sorted. Rule A20."""
        same = ("instance_id", "rack_id", "client_id", "client_host", "subscribed_topic_regex")
        told = {name: getattr(self, name) for name in same}
        return told | {"subscribed_topic_names": sorted(self.subscribed_topic_names)}

    def metadata_differs(self, other: ConsumerGroupMember) -> bool:
        """Whether record 5 of the two differs. Rule A5.3."""
        return self[:_CURRENT] != other[:_CURRENT]

    def current_differs(self, other: ConsumerGroupMember) -> bool:
        """Whether record 8 of the two differs. Rule A8.11."""
        return self[_CURRENT:] != other[_CURRENT:]


_CURRENT = ConsumerGroupMember._fields.index("member_epoch")  # where the current assignment begins


def short_id(uuid: str) -> str:
    """A UUID in 22 characters, the first of which is no dash. What is no UUID stays as it is.

    Rules A3.5 and A15.5. Kafka: Uuid.toString, Uuid.randomUuid.
    """
    if len(uuid) != _UUID_LENGTH:
        return uuid
    text = short(bytes.fromhex(uuid.replace("-", "")))
    return f"_{text[1:]}" if text.startswith("-") else text
