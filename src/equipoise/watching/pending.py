"""Commits that are heard before they count: a producer's transaction has them, and its end is no record of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equipoise.wire.errors import ProtocolError
from equipoise.wire.offsets_records import OffsetCommitKey, decode_record


class PendingCommits:
    """What was heard of each group since its coordinator was last asked. What the coordinator does not answer then is
    in a transaction that is open, or was aborted: the group is to be asked about again (KIP-98)."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[bytes, int]] = {}  # by group and key of the record

    def heard(self, group_id: str, key: bytes, offset: int | None) -> None:
        """A commit; None: it was deleted."""
        if offset is not None:
            self._offsets.setdefault(group_id, {})[key] = offset
        elif group_id in self._offsets:
            self._offsets[group_id].pop(key, None)

    def settle(self, group_id: str, committed: Mapping[tuple[str, int], Any]) -> bool:
        """The coordinator has answered this, offsets first. Whether something is still pending."""
        heard = self._offsets.pop(group_id, {})
        left = {key: offset for key, offset in heard.items() if _offset(committed, key) != offset}
        if left:
            self._offsets[group_id] = left
        return bool(left)

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._offsets.pop(group_id, None)


def _offset(committed: Mapping[tuple[str, int], Any], key: bytes) -> int | None:
    try:
        place = getattr(decode_record(key, None), "key", None)
    except ProtocolError:
        return None
    found = committed.get((place.topic, place.partition)) if isinstance(place, OffsetCommitKey) else None
    return found[0] if isinstance(found, tuple) else None
