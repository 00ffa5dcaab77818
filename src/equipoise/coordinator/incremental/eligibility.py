"""Which groups can be rebalanced incrementally: the coordinator must be able to assign as their leader would. Rule C2.

Nobody's own assignor is ever replaced by another: the classic vote decides which protocol the members want, and if
that is not one that the coordinator has, or if its data cannot be read, the group stays classic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from equipoise.assignors import ASSIGNORS, RebalanceProtocol
from equipoise.coordinator.classic.group import count_votes
from equipoise.coordinator.consumer.group import ConsumerGroup
from equipoise.wire.consumer_protocol import MOST_ELEMENTS, StickyAssignorUserData, decode_subscription
from equipoise.wire.errors import ProtocolError

Offered = Sequence[tuple[str, bytes]]  # protocols of a member: name and metadata, in order of preference
_COOPERATIVE = frozenset(
    name for name, assignor in ASSIGNORS.items() if RebalanceProtocol.COOPERATIVE in assignor.protocols
)
_STICKY = frozenset({"sticky", "cooperative-sticky"})
_GENERATION_BYTES = 4
_KAFKA_PYTHON = b"\x00\x01"  # kafka-python puts a version before its user data


class Mode(Enum):
    """`group.rebalance.incremental`, or `classic.rebalance.incremental` of the group. Rule C1.1."""

    OFF = "off"
    COOPERATIVE = "cooperative"
    ALL = "all"


MODES = {mode.value: mode for mode in Mode}


def offered_by(group: ConsumerGroup, without: str = "") -> list[Offered]:
    """The protocols of the classic members, but for one."""
    members = group.members.values()
    return [one.classic.protocols for one in members if one.classic is not None and one.member_id != without]


def selected_protocol(offered: Sequence[Offered]) -> str | None:
    """The classic vote: each votes for the first of its protocols that all have. Rule 2.5.

    Kafka: ClassicGroup.selectProtocol.
    """
    named = {frozenset(name for name, _ in one) for one in offered}
    candidates = set(frozenset.intersection(*named)) if named else set()
    return count_votes(offered, candidates) if candidates else None


def eligible_protocol(mode: Mode, offered: Sequence[Offered], known: str | None = None) -> str | None:
    """The protocol by which the coordinator can assign; None: the group must have a leader.

    `known`: the protocol for which all but the last have been looked at before. Rules C1.2 and C2.2.
    """
    if mode is Mode.OFF or (mode is Mode.COOPERATIVE and offered and not _is_cooperative(offered[-1])):
        return None
    protocol = selected_protocol(offered)
    if protocol is None or protocol not in ASSIGNORS:
        return None
    looked_at = offered[-1:] if protocol == known else offered
    if mode is Mode.COOPERATIVE and not all(_is_cooperative(one) for one in looked_at):
        return None
    return protocol if all(_is_understood(protocol, one) for one in looked_at) else None


def _is_cooperative(offered: Offered) -> bool:
    return all(name in _COOPERATIVE for name, _ in offered)


def _is_understood(protocol: str, offered: Offered) -> bool:
    """A subscription must be readable, and its user data must be what the assignor of that name writes. So a custom
    assignor that has kept a built-in name is recognised, if at all. Rules C2.3 and C2.4."""
    metadata = next(metadata for name, metadata in offered if name == protocol)
    try:
        data = decode_subscription(metadata, budget=MOST_ELEMENTS).user_data
    except ProtocolError:
        return False
    if not data:
        return True
    if protocol == "cooperative-sticky" and len(data) == _GENERATION_BYTES:
        return True
    return protocol in _STICKY and _is_sticky_data(bytes(data))


def _is_sticky_data(data: bytes) -> bool:
    """librdkafka writes it for cooperative-sticky too."""
    return any(map(_can_be_read, [data, data.removeprefix(_KAFKA_PYTHON)]))


def _can_be_read(data: bytes) -> bool:
    for version in (1, 0):
        try:
            StickyAssignorUserData.decode(data, version, budget=MOST_ELEMENTS)
        except ProtocolError:
            continue
        return True
    return False


def has_type(protocol_type: str, names: Iterable[str], offered: Sequence[Offered]) -> bool:
    """Whether a member may be in the group: it shares a protocol with all others. Rule 2.4.

    Kafka: ClassicGroup.supportsProtocols.
    """
    common = set(names).intersection(*({name for name, _ in one} for one in offered))
    return protocol_type == ConsumerGroup.protocol_type and bool(common)
