"""Rebalances of `consumer` groups, concluded from the records that Kafka writes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from equipoise.views.consumer_entries import ConsumerGroupRecords, consumer_record, kafka_uuid, with_names
from equipoise.views.entries import Entry
from equipoise.views.model import Dark, Guess, GuessKind, Move, Phases, RebalanceView
from equipoise.views.rebalances import rebalance_views
from equipoise.wire.offsets_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    GroupMetadataKey,
    encode_key,
    encode_value,
)
from equipoise.wire.schema import Message

TOPIC_ID = bytes(range(16))
NAMES = {kafka_uuid(TOPIC_ID): "orders"}
Change = tuple[Message, Message | None]


def epoch(number: int) -> Change:
    return ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=number)


def target(number: int) -> Change:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number)
    return ConsumerGroupTargetAssignmentMetadataKey(group_id="g"), value


def member(name: str, topics: Iterable[str] = ("orders",), **more: Any) -> Change:
    value = ConsumerGroupMemberMetadataValue(
        client_id=name, client_host="/10.0.0.1", subscribed_topic_names=list(topics), rebalance_timeout_ms=9, **more
    )
    return ConsumerGroupMemberMetadataKey(group_id="g", member_id=f"{name}-id"), value


def has(name: str, number: int, owned: Iterable[int] = (), revoking: Iterable[int] = ()) -> Change:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=number,
        previous_member_epoch=number - 1,
        state=1 if revoking else 0,
        assigned_partitions=_rows(owned),
        partitions_pending_revocation=_rows(revoking),
    )
    return ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=f"{name}-id"), value


def _rows(numbers: Iterable[int]) -> list[CurrentTopicPartitions]:
    listed = list(numbers)
    return [CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=listed)] if listed else []


def gone(name: str) -> list[Change]:
    keys = (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupMemberMetadataKey)
    return [(key(group_id="g", member_id=f"{name}-id"), None) for key in keys]


class Story:
    """A group, and the entries of its rebalances."""

    def __init__(self) -> None:
        self.records = ConsumerGroupRecords()
        self.entries: list[Entry] = []

    def at(self, time: int, *changes: Change) -> None:
        for key, value in changes:
            named = consumer_record(encode_key(key), None if value is None else encode_value(value))
            assert named is not None
            assert named[0] == "g"
            entry = self.records.take(named[1], time)
            if entry is not None:
                self.entries.append(entry)

    @property
    def views(self) -> list[RebalanceView]:
        return [*rebalance_views("g", [], [with_names(one, NAMES) for one in self.entries])]


@pytest.fixture
def story() -> Story:
    """Member a has both partitions."""
    told = Story()
    told.at(1_000, member("a"), epoch(1), target(1), has("a", 1, [0, 1]))
    return told


def test_a_first_member_has_joined(story: Story) -> None:
    (view,) = story.views
    assert isinstance(view.cause, Guess)
    assert view.cause.kind is GuessKind.MEMBER_JOINED
    assert view.cause.who is not None
    assert (view.cause.who.client_id, view.generation, view.is_target) == ("a", 1, True)
    assert (view.started, view.ended, view.phases) == (1_000, 1_000, Phases(None, 0, None, 0))


def test_the_rebalance_lasts_until_the_waiting_member_has_its_part(story: Story) -> None:
    """Kafka writes state 2 while partitions of others are waited for."""
    key, waiting = has("b", 2)
    assert isinstance(waiting, ConsumerGroupCurrentMemberAssignmentValue)
    waiting.state = 2
    story.at(5_000, member("b"), epoch(2), target(2), (key, waiting))
    story.at(5_200, has("a", 1, [0], revoking=[1]))
    story.at(5_500, has("a", 2, [0]))
    assert len(story.views) == 1
    story.at(5_700, has("b", 2, [1]))
    view = story.views[-1]
    assert (view.started, view.ended, view.phases) == (5_000, 5_700, Phases(None, 0, None, 700))
    assert view.moved == (Move("orders", 1, "a-id", "b-id"),)
    assert view.dark == (Dark("orders", 1, 200),)  # after a had given it up
    assert view.called == (("a-id", 500), ("b-id", 700))


def test_a_member_that_is_gone(story: Story) -> None:
    story.at(5_000, member("b"), epoch(2), target(2), has("b", 2, [1]), has("a", 2, [0]))
    story.at(9_000, *gone("b"), epoch(3))
    story.at(9_300, target(3), has("a", 3, [0, 1]))
    view = story.views[-1]
    assert isinstance(view.cause, Guess)
    assert view.cause.kind is GuessKind.MEMBER_GONE
    assert view.phases == Phases(None, 300, None, 0)
    assert view.dark == (Dark("orders", 1, 300),)
    story.at(11_000, *gone("a"), epoch(4))
    assert (story.views[-1].members, story.views[-1].revoked) == (0, (("orders", 0), ("orders", 1)))


def test_while_a_group_is_empty_nothing_is_without_owner(story: Story) -> None:
    story.at(5_000, *gone("a"), epoch(2))
    story.at(3_605_000, member("b"), epoch(3), target(3), has("b", 3, [0, 1]))
    assert [one.dark for one in story.views] == [(), (), ()]


def test_the_same_members_with_other_partitions(story: Story) -> None:
    story.at(5_000, epoch(2), target(2), has("a", 2, [0, 1, 2]))
    assert story.views[-1].cause == Guess(GuessKind.TOPICS_CHANGED)
    story.at(6_000, epoch(3), target(3), has("a", 3, [0, 1, 2]))
    assert story.views[-1].cause == Guess(GuessKind.UNKNOWN)


def test_an_epoch_that_is_overtaken_is_one_rebalance_with_the_next(story: Story) -> None:
    story.at(5_000, member("b"), epoch(2), target(2))
    story.at(5_500, member("c"), epoch(3), target(3))
    story.at(6_000, has("a", 3, [0]), has("b", 3, [1]), has("c", 3))
    view = story.views[-1]
    assert len(story.views) == 2
    assert (view.old_generation, view.generation, view.started) == (1, 3, 5_000)


def test_nobody_waits_for_a_static_member_that_is_away(story: Story) -> None:
    story.at(3_000, has("a", -2, [0, 1]))
    story.at(5_000, member("b"), epoch(2), target(2), has("b", 2))
    assert [one.generation for one in story.views] == [1, 2]


def test_a_pattern_that_matches_another_topic_is_another_subscription(story: Story) -> None:
    regex = ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="o.*")

    def resolved(*topics: str) -> Change:
        return regex, ConsumerGroupRegularExpressionValue(topics=list(topics), version=1, timestamp=1)

    story.at(4_000, member("a", [], subscribed_topic_regex="o.*"), resolved("orders"))
    story.at(4_000, epoch(2), target(2), has("a", 2, [0, 1]))
    story.at(5_000, resolved("orders", "offers"), epoch(3), target(3), has("a", 3, [0, 1]))
    cause = story.views[-1].cause
    assert isinstance(cause, Guess)
    assert cause.kind is GuessKind.SUBSCRIPTION_CHANGED


def test_who_begins_in_the_middle_guesses_nothing_of_the_first_and_hears_of_all_members() -> None:
    story = Story()
    story.at(5_000, epoch(7), target(7), has("a", 7, [0]))
    story.at(5_400, has("b", 7, [1]))
    (view,) = story.views
    assert (view.cause, view.members, view.ended) == (Guess(GuessKind.UNKNOWN), 2, 5_400)
    story.at(9_000, member("c"), epoch(8), target(8), has("a", 8, [0]), has("b", 8, [1]), has("c", 8))
    cause = story.views[-1].cause
    assert isinstance(cause, Guess)
    assert (cause.kind, cause.who and cause.who.client_id) == (GuessKind.MEMBER_JOINED, "c")


def test_a_group_that_is_deleted_begins_anew(story: Story) -> None:
    story.at(5_000, (ConsumerGroupMetadataKey(group_id="g"), None))
    assert story.entries[-1] == {"type": "deleted", "at": 5_000}


def test_other_records_are_left_to_others() -> None:
    assert consumer_record(encode_key(GroupMetadataKey(group="g")), None) is None
    assert consumer_record(b"", None) is None
    assert consumer_record(b"\0\3", None) is None
    assert consumer_record(b"\0\x0d\0\1g", None) is None  # of a share group


def test_a_topic_without_a_name_keeps_its_id(story: Story) -> None:
    (member_of_it,) = with_names(story.entries[0], {})["members"]
    assert member_of_it["partitions"] == [[kafka_uuid(TOPIC_ID), 0], [kafka_uuid(TOPIC_ID), 1]]
