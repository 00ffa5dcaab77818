"""The meaning of each error of ConsumerGroupHeartbeat: rules B5.14 to B5.128 of docs/rules/consumer-members.md.

The table follows AbstractHeartbeatRequestManager.onErrorResponse and
ConsumerHeartbeatRequestManager.handleSpecificExceptionInResponse. An error without a row is fatal.
"""

from __future__ import annotations

from equipoise.member.verdicts import ErrorTable, Verdict
from equipoise.wire.errors import ErrorCode

MOST_RETRIES = 3  # of what is fatal if it lasts
_NO_SUCH_GROUPS = (
    ": the broker has no consumer groups (KIP-848), which Apache Kafka has from 4.0 on; set group.protocol=classic, or "
    "group.protocol=auto to take what the broker has"
)
CONSUMER_HEARTBEAT = ErrorTable(
    "ConsumerGroupHeartbeat",
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.COORDINATOR_GONE,
        ErrorCode.NOT_COORDINATOR: Verdict.COORDINATOR_GONE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
        ErrorCode.UNKNOWN_MEMBER_ID: Verdict.FENCE,
        ErrorCode.FENCED_MEMBER_EPOCH: Verdict.FENCE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Verdict.TELL,
        # Java stops at once. A process that restarts fast meets its predecessor's session; a broker may stumble once.
        ErrorCode.UNRELEASED_INSTANCE_ID: Verdict.RETRY_A_WHILE,
        ErrorCode.UNKNOWN_SERVER_ERROR: Verdict.RETRY_A_WHILE,
    },
    {
        ErrorCode.UNSUPPORTED_VERSION: _NO_SUCH_GROUPS,
        ErrorCode.UNSUPPORTED_ASSIGNOR: ": group.remote.assignor must be one of the broker's group.consumer.assignors",
        ErrorCode.INVALID_REGULAR_EXPRESSION: ": a SubscriptionPattern is matched by the broker, in RE2 syntax",
        ErrorCode.UNRELEASED_INSTANCE_ID: (
            ": another consumer with this group.instance.id is in the group; stop it, or wait until its session ends"
        ),
        ErrorCode.FENCED_INSTANCE_ID: (
            ": another consumer has joined with this group.instance.id; give each running consumer its own"
        ),
        ErrorCode.GROUP_MAX_SIZE_REACHED: ": the group is full; see the broker's group.consumer.max.size",
        ErrorCode.GROUP_ID_NOT_FOUND: (
            ": the group is of another type, or was deleted, or cannot be converted; its members must leave, or use "
            "another group.id"
        ),
    },
    otherwise=Verdict.FATAL,
)
