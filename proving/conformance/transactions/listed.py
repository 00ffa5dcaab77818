"""The differences from Apache Kafka that are meant, or come from races inside Kafka. docs/differences.md has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from proving.conformance.transactions.steps import CommitOffsets, Send, Step

ABORTABLE, INVALID, OUT_OF_ORDER = "TRANSACTION_ABORTABLE", "INVALID_TXN_STATE", "OUT_OF_ORDER_SEQUENCE_NUMBER"


class Listed(NamedTuple):
    """By the last step, and both answers."""

    name: str
    matches: Callable[[Step, Any, Any], bool]


def _is_word_of_another_version(step: Step, kafka: Any, ours: Any) -> bool:
    """Kafka asks its coordinator for many requests at once, and answers all by the version of the first
    (AddPartitionsToTxnManager)."""
    words = {ABORTABLE, INVALID}
    return isinstance(step, Send | CommitOffsets) and {*kafka[0]} | {*ours[0]} == words


def _is_forgotten_version(step: Step, kafka: Any, ours: Any) -> bool:
    """Kafka keeps the transaction version of a verification that has failed, and judges the next records by it
    (VerificationStateEntry)."""
    is_gap = isinstance(step, Send) and step.gap > 0
    return is_gap and {*kafka[0], *ours[0]} == {"NONE", OUT_OF_ORDER}


LISTED = (
    Listed("the word for a partition that was not added", _is_word_of_another_version),
    Listed("a gap behind a verification that has failed", _is_forgotten_version),
)


def listed(step: Step, what: str, kafka: Any, ours: Any) -> str | None:
    """The name of the difference; None: it is not meant."""
    if what != "answer":
        return None
    return next((one.name for one in LISTED if one.matches(step, kafka, ours)), None)
