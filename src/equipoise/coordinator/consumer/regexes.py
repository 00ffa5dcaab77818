"""Regular expressions of members: what a heartbeat changes about them, and which topics they match.

Matching takes time that no heartbeat has. A step asks the runner of the shard for it (`Resolve`), which does it between
turns, and its result is another input. All expressions of a group are resolved together, so that they cost one bump.
Until then an expression matches nothing. Rules A14.3 to A14.6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING

from equipoise.coordinator.changes import Changes
from equipoise.coordinator.consumer.assignment.epochs import refresh
from equipoise.coordinator.consumer.group import ConsumerGroup, Resolution, ResolvedRegex
from equipoise.coordinator.consumer.member import ConsumerGroupMember
from equipoise.coordinator.consumer.records.build import regex_record, regex_tombstone
from equipoise.coordinator.consumer.regex import InvalidRegularExpression, parse
from equipoise.coordinator.reasons import Cause, Trigger
from equipoise.coordinator.step import Caller, Resolve, Step
from equipoise.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from equipoise.coordinator.shard import Shard

_STRICT_PAUSE_MS = 10_000  # between two resolutions of a group, as in Kafka
_PAUSE_MS = 1_000  # an addition: a regular expression that comes second is resolved sooner


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
    if old and old not in group.regexes:
        changes.put(regex_tombstone(group.group_id, old))
    if new and group.regexes[new] == 1:
        _check(new)
    return RegexChange.RESOLVED if not new or new in group.resolved else RegexChange.UPDATED


def maybe_resolve(shard: Shard, group: ConsumerGroup, caller: Caller, step: Step) -> None:
    """Asks for a resolution if one is needed: an expression has none, topics were created, or the last one is old (ACLs
    may have changed). One at a time, and not in quick succession.

    Rules A14.6 and A14.14. Kafka: GroupMetadataManager.maybeUpdateRegularExpressions.
    """
    last, now = group.resolution, step.now
    if last.is_under_way or not group.regexes:
        return
    is_first = last.version < 0
    pause = _STRICT_PAUSE_MS if shard.config.strict else _PAUSE_MS
    if not is_first and now <= last.begun_at + pause:
        return
    if (
        is_first
        or group.regexes.keys() != group.resolved.keys()
        or last.version < shard.new_topics_version
        or now > last.begun_at + shard.config.group_consumer_regex_refresh_interval_ms
    ):
        group.resolution = Resolution(True, now, shard.image.version)
        regexes = tuple(sorted(group.regexes))
        step.resolve(Resolve(group.group_id, regexes, shard.image.version, now, caller))


def regexes_resolved(shard: Shard, asked: Resolve, found: Mapping[str, Collection[str]], step: Step) -> None:
    """The topics of each expression, at the image that was asked about. What nobody has any more is passed over; what
    is missing, because the runner has failed, is asked for again later.

    Rules A14.5 and A14.7. Kafka: GroupMetadataManager.handleRegularExpressionsResult.
    """
    group = shard.consumer_groups.get(asked.group_id)
    if group is None or shard.unavailable is not ErrorCode.NONE:
        return
    if group.resolution.begun_at == asked.begun_at:
        group.resolution = group.resolution._replace(is_under_way=False)
    changes, cause = Changes(shard, asked.group_id), None
    for regex in sorted(found.keys() & group.regexes.keys()):
        topics = frozenset(found[regex])
        if topics != _topics(group, regex):
            cause = Cause(Trigger.REGEX_RESOLVED)
        resolved = ResolvedRegex(topics, asked.version, shard.wall_time(asked.begun_at))
        changes.put(regex_record(group.group_id, regex, resolved))
    if changes.records:
        refresh(shard, changes, cause, step)
    changes.write(step, None)


def _topics(group: ConsumerGroup, regex: str) -> frozenset[str]:
    resolved = group.resolved.get(regex)
    return frozenset() if resolved is None else resolved.topics


def _check(regex: str) -> None:
    try:
        parse(regex)
    except InvalidRegularExpression as error:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None
