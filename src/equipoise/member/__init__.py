"""One member of a consumer group, pure: the consumer's side of the protocol. Each name is imported at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from equipoise.lazy import importer

if TYPE_CHECKING:
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

_load = importer(
    __name__,
    {
        "AnyMember": "equipoise.member.face",
        "BrokerNode": "equipoise.member.coordination",
        "Callback": "equipoise.member.step",
        "CallbackKind": "equipoise.member.step",
        "Commit": "equipoise.member.commits",
        "CommitFailedError": "equipoise.member.errors",
        "CommitFailure": "equipoise.member.errors",
        "ConsumerMember": "equipoise.member.consumer.member",
        "FencedInstanceIdError": "equipoise.member.errors",
        "Member": "equipoise.member.classic.member",
        "MemberConfig": "equipoise.member.config",
        "MemberState": "equipoise.member.classic.states",
        "OffsetAndMetadata": "equipoise.member.commits",
        "Overrun": "equipoise.member.errors",
        "RebalanceInProgressError": "equipoise.member.errors",
        "Send": "equipoise.member.step",
        "Step": "equipoise.member.step",
        "SubscriptionPattern": "equipoise.member.subscription",
        "TopicPartition": "equipoise.member.partitions",
    },
)


def __getattr__(name: str) -> Any:
    return _load(name)
