"""Time: transactions that are open for too long are aborted, ids that are silent for too long are forgotten, and a
completion that could not be written is written again."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import TYPE_CHECKING, NamedTuple

from equipoise.coordinator.transactions.end import complete, fence
from equipoise.coordinator.transactions.events import EndReason
from equipoise.coordinator.transactions.metadata import TransactionMetadata
from equipoise.coordinator.transactions.states import AT_REST, PREPARED, State
from equipoise.coordinator.transactions.step import TransactionStep

if TYPE_CHECKING:
    from equipoise.coordinator.transactions.shard import TransactionShard

MOST_AT_ONCE = 1000  # ids that one sweep forgets: the next one follows at once
COMPLETION_RETRY_MS = 1_000


class TimerKind(IntEnum):
    """What a timer is for."""

    TIMEOUT = auto()  # of an open transaction
    PARKED = auto()  # of the requests that wait for an id
    COMPLETION = auto()  # of an id that is decided and marked: its completion could not be written
    EXPIRY = auto()  # of the shard: the next look for ids that are silent


class TransactionTimer(NamedTuple):
    """The key of a timer."""

    kind: TimerKind
    transactional_id: str = ""


EXPIRY = TransactionTimer(TimerKind.EXPIRY)


def arm_timeout(
    shard: TransactionShard, entry: TransactionMetadata, now: int, *, has_failed_fence: bool = False
) -> None:
    """The timeout is counted on the wall clock, which may be set: it is looked at anew after each interval.

    So is a fence that has just failed, whose timeout may be over: at once it would fail again, and without end.
    Rules T.37 and T.39. Kafka: TransactionStateManager.timedOutTransactions.
    """
    key = TransactionTimer(TimerKind.TIMEOUT, entry.transactional_id)
    if not entry.can_time_out:
        shard.timers.cancel(key)
        return
    interval = shard.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
    wait = interval if has_failed_fence else max(min(_remaining(shard, entry, now), interval), 0)
    shard.timers.arm(key, now + wait)


def _remaining(shard: TransactionShard, entry: TransactionMetadata, now: int) -> int:
    """Until the timeout is over: one millisecond later, as in Kafka."""
    return entry.fields.start_ms + entry.fields.transaction_timeout_ms + 1 - shard.wall_time(now)


def on_timeout(shard: TransactionShard, transactional_id: str, step: TransactionStep) -> None:
    """Rule T.37. Kafka: TransactionCoordinator.abortTimedOutTransactions."""
    entry = shard.entries.get(transactional_id)
    if entry is None or not entry.can_time_out:
        return
    if _remaining(shard, entry, step.now) > 0:
        arm_timeout(shard, entry, step.now)
    else:
        fence(shard, entry, EndReason.TIMED_OUT, step)


def arm_completion(shard: TransactionShard, entry: TransactionMetadata, now: int) -> None:
    """Rule T.34."""
    shard.timers.arm(TransactionTimer(TimerKind.COMPLETION, entry.transactional_id), now + COMPLETION_RETRY_MS)


def on_completion_timer(shard: TransactionShard, transactional_id: str, step: TransactionStep) -> None:
    """The completion that has failed is written again. Rule T.34. Kafka:
    TransactionMarkerChannelManager.retryLogAppends."""
    entry = shard.entries.get(transactional_id)
    if entry is not None and entry.state in PREPARED:
        entry.pending = None
        complete(shard, entry, step)


def sweep(shard: TransactionShard, step: TransactionStep) -> None:
    """Rule T.38. Kafka: TransactionStateManager.removeExpiredTransactionalIds."""
    oldest = shard.wall_time(step.now) - shard.config.transactional_id_expiration_ms
    silent = [entry for entry in shard.entries.values() if _is_silent(entry, oldest)]
    for entry in silent[:MOST_AT_ONCE]:
        shard.write(entry, entry.prepare(State.DEAD, partitions=frozenset()), step)
    if len(silent) > MOST_AT_ONCE:
        shard.timers.arm(EXPIRY, step.now + 1)
    else:
        arm_sweep(shard, step.now)


def arm_sweep(shard: TransactionShard, now: int) -> None:
    """The next look comes after an interval; also behind a tombstone that could not be written, however many are to
    come. Rule T.38."""
    shard.timers.arm(EXPIRY, now + shard.config.transaction_remove_expired_transaction_cleanup_interval_ms)


def _is_silent(entry: TransactionMetadata, oldest: int) -> bool:
    return entry.pending is None and entry.state in AT_REST and entry.fields.last_update_ms <= oldest
