"""Cuts off the end of a log: what an unclean election loses. For tests of failover; nothing else shortens a log.

Files are never cut where they stand, because readers may have maps of them: the part that stays is copied to a new
file, which takes the place of the old one. A crash in between leaves a log that is longer, and whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from equipoise.log.segment import LogSegment
from equipoise.log.storage.medium import Files, Replacement


def truncated(segments: Sequence[LogSegment], offset: int, files: Files, index_interval_bytes: int) -> list[LogSegment]:
    """What stays: the batches that end before `offset` (UnifiedLog.truncateTo)."""
    *kept, last = [one for one in segments if one.base_offset <= offset] or segments[:1]
    for segment in reversed(segments[len(kept) + 1 :]):
        segment.storage.delete()
    position = last.position_of(offset)
    if position == last.size:
        return [*kept, last]
    if position == 0:
        last.storage.delete()
        return kept
    new = LogSegment(last.base_offset, files.cleaned_storage(last.base_offset), index_interval_bytes)
    batches = takewhile(lambda one: one[0] < position, last.headers())
    new.append_cleaned([last.storage.views(at, at + header.size)[0] for at, header in batches], last.modified)
    new.aborted = [one for one in last.aborted if one.last_offset < new.end_offset]
    new.storage.sync()
    files.replace(Replacement([last], new))
    return [*kept, new]
