"""Regular expressions of members: what a heartbeat changes about them. Rule A14."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.records import regex_tombstone
from equipoise.coordinator.consumer.regex import InvalidRegularExpression, compile_regex
from equipoise.coordinator.step import Step
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.changes import Changes
    from equipoise.coordinator.shard import Shard


class RegexChange(Enum):
    """What became of a member's regular expression."""

    NONE = auto()
    UPDATED = auto()  # it is not resolved yet: the bump comes with the resolution
    RESOLVED = auto()  # it is another one, and what it matches is known


def update_regex(shard: Shard, changes: Changes, before: ConsumerGroupMember, step: Step) -> RegexChange:
    """The member may have another regular expression than `before`; the group has it already. Raises KafkaError.

    Rules A14.2, A14.8 and A3.19. Kafka: GroupMetadataManager.maybeUpdateRegularExpressions.
    """
    group = changes.group
    old, new = before.subscribed_topic_regex, group.members[before.member_id].subscribed_topic_regex
    if new == old:
        return RegexChange.NONE
    if old and old in group.resolved and old not in group.regexes:
        changes.put(regex_tombstone(group.group_id, old))
    if new and group.regexes[new] == 1:
        _check(new)
    return RegexChange.RESOLVED if not new or new in group.resolved else RegexChange.UPDATED


def _check(regex: str) -> None:
    try:
        compile_regex(regex)
    except InvalidRegularExpression as error:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None
