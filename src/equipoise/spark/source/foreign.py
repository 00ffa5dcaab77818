"""Whether a checkpoint is this query's own, as far as its last offset tells: which group it has, which topics it reads.

With another query's checkpoint, what that one has read would count as read here: no error, and no rows. Spark tells a
source nothing of the checkpoint but its offsets, so these say whose they are.
"""

from __future__ import annotations

from equipoise.spark.options import SourceOptions
from equipoise.spark.source.offsets import SourceOffset
from equipoise.wire.errors import UsageError

_REMEDY = "begin with a new checkpoint, or name {} as before"


def check_own(offset: SourceOffset, options: SourceOptions) -> None:
    """UsageError if `offset` is of another group, or has no topic in common with what the query reads.

    Topics may be added to a subscription, and single ones left out: that is for failOnDataLoss to decide.
    """
    if offset.is_initial:
        return
    group = options.consumer.group_id or ""
    if offset.group is not None and offset.group != group:
        raise UsageError(
            f"the checkpoint is of a query with {_named(offset.group)}, this one has {_named(group)}: what was read "
            f"there would count as read here; {_REMEDY.format('the group')}"
        )
    read = offset.topics
    if read and not any(options.choice.covers(name) for name in read):
        told = ", ".join(sorted(read))
        raise UsageError(
            f"the checkpoint is of a query that reads {told}, this one reads {options.choice}: "
            f"{_REMEDY.format('the topics')}"
        )


def _named(group: str) -> str:
    return f"the group {group!r}" if group else "no group"
