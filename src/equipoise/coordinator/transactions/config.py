"""The settings of the transaction coordinator, under Kafka's names with underscores, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass

EPOCH_BUMP = 2  # the transaction version from which on every transaction takes a new epoch (KIP-890)
NEVER_MS = 2**31 - 1  # the timeout of a two-phase commit (KIP-939)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """One field per setting; SUPPORTED.md says what each does."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    transaction_version: int = 2
    transaction_park_ms: int = 0  # here as in Kafka; the broker has a default of its own
