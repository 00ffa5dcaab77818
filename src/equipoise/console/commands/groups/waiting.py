"""Open transactions in the partitions of a group: readers of committed records do not pass them. Rule T.98."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.console.options import ClusterOptions
from equipoise.views.model import GroupView
from equipoise.wire.errors import EquipoiseError
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.client.admin_transactions import OpenTransaction


def held_up(cluster: ClusterOptions, group: GroupView) -> list[str]:
    """A sentence for each partition with unread records and an open transaction. A cluster that does not tell, or not
    to everybody, has none."""
    behind = {(one.topic, one.partition) for one in group.partitions if one.lag != 0}
    if not behind:
        return []
    try:
        with cluster.admin() as admin:
            found = admin.open_transactions({topic for topic, _ in behind})
    except EquipoiseError:
        return []
    return [_words(one) for one in _oldest(found) if one.partition in behind]


def _oldest(found: list[OpenTransaction]) -> Iterator[OpenTransaction]:
    """Of each partition: the one that readers stop at."""
    last = None
    for one in found:
        if one.partition != last:
            yield one
        last = one.partition


def _words(one: OpenTransaction) -> str:
    place = f"{printable(one.partition.topic)}-{one.partition.partition}"
    stop = f"{place}: readers of committed records stop at offset {one.start_offset}"
    if one.transactional_id is None:
        return f"{stop}, before a transaction of producer {one.producer_id} that hangs: see `equipoise transactions`"
    open_s = max(0.0, time.time() - one.transaction_start_time_ms / 1000)
    who = f"{printable(one.transactional_id)} (producer {one.producer_id})"
    limit = f"it times out after {one.transaction_timeout_ms / 1000:g} s"
    return f"{stop}, before a transaction of {who} that is open for {open_s:.0f} s; {limit}"
