"""One member of a consumer group, pure: the consumer's side of the protocol."""

from equipoise.member.classic.member import Member
from equipoise.member.classic.states import MemberState
from equipoise.member.commits import Commit, OffsetAndMetadata
from equipoise.member.config import MemberConfig
from equipoise.member.consumer.member import ConsumerMember
from equipoise.member.coordination import BrokerNode
from equipoise.member.errors import (
    CommitFailedError,
    CommitFailure,
    FencedInstanceIdError,
    Overrun,
    RebalanceInProgressError,
)
from equipoise.member.face import AnyMember
from equipoise.member.partitions import TopicPartition
from equipoise.member.step import Callback, CallbackKind, Send, Step
from equipoise.member.subscription import SubscriptionPattern

__all__ = [
    "AnyMember",
    "BrokerNode",
    "Callback",
    "CallbackKind",
    "Commit",
    "CommitFailedError",
    "CommitFailure",
    "ConsumerMember",
    "FencedInstanceIdError",
    "Member",
    "MemberConfig",
    "MemberState",
    "OffsetAndMetadata",
    "Overrun",
    "RebalanceInProgressError",
    "Send",
    "Step",
    "SubscriptionPattern",
    "TopicPartition",
]
