"""ListTransactions (66): the transactional ids of a coordinator (KIP-664).

v1  only those that have been open for longer than a duration (KIP-994)
v2  only those whose id matches a pattern (KIP-1152)
"""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled
from equipoise.wire.schema import Message, Struct, field


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    state_filters: list[str] = field(["string"])
    producer_id_filters: list[int] = field(["int64"])
    duration_filter: int = field("int64", "1+", default=-1)
    transactional_id_pattern: str | None = field("string", "2+", nullable=True, default=None)


class ListedTransaction(Struct):
    transactional_id: str = field("string")
    producer_id: int = field("int64")
    transaction_state: str = field("string")


class ListTransactionsResponse(Throttled, Message, api_key=66, versions="0-2", flexible="0+"):
    error_code: int = field("int16")
    unknown_state_filters: list[str] = field(["string"], default=[])
    transaction_states: list[ListedTransaction] = field([ListedTransaction], default=[])
