"""The topics of offsets to commit or to delete: which there are, and which are answered before the group is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from equipoise.security.acls import AclOperation
from equipoise.wire.apis.k08_offset_commit import OffsetCommitRequestTopic
from equipoise.wire.apis.k28_txn_offset_commit import TxnOffsetCommitRequestTopic
from equipoise.wire.apis.k47_offset_delete import OffsetDeleteRequestTopic
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Topic

Asked = TypeVar("Asked", OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic, OffsetDeleteRequestTopic)
Answered = TypeVar("Answered")


def sort_out(
    server: Server,
    call: Call,
    topics: Sequence[Asked],
    *,
    key_of: Callable[[Asked], str | bytes],
    refuse: Callable[[Asked, Sequence[Any], ErrorCode], Answered],
) -> tuple[list[Asked], list[Answered], list[Topic]]:
    """What there is, with its name; the rest as `refuse` answers it; and the topics that were found."""
    kept, refused, found = [], [], []
    for topic in topics:
        known = _find(server, call, key_of(topic))
        if isinstance(known, ErrorCode):
            refused.append(refuse(topic, topic.partitions, known))
            continue
        topic.name = known.name
        found.append(known)
        count = len(known.partitions)
        wrong = [row for row in topic.partitions if not 0 <= row.partition_index < count]
        if wrong:
            refused.append(refuse(topic, wrong, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = [row for row in topic.partitions if 0 <= row.partition_index < count]
        if topic.partitions:
            kept.append(topic)
    return kept, refused, found


def _find(server: Server, call: Call, key: str | bytes) -> Topic | ErrorCode:
    """A request may name 14,000 topics that are not there: an exception for each would take most of its time."""
    if server.allows_all:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(key, str) else ErrorCode.UNKNOWN_TOPIC_ID
        return server.topics.look_up(key) or unknown
    try:
        return server.find_topic(call, AclOperation.READ, key)
    except KafkaError as error:
        return error.code
