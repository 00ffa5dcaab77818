"""What the batch under way holds of its group, as the source tells the exactly-once sink: a small file on the driver.

Theory of operation. The sink commits the offsets of a batch with its rows, in the name of the source's member. The
coordinator refuses a member that it has put out, and one of an earlier generation (KIP-447). Source and sink are two
processes of one driver, and Spark shows neither to the other. The sink finds the file by the id of the query, which is
in the offsets of Spark's checkpoint. The source writes it before the tasks of a batch begin, and again whenever its
place in the group changes.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from equipoise.client.transactions.group_metadata import ConsumerGroupMetadata
from equipoise.member.partitions import NOTHING, Owned, TopicPartition
from equipoise.spark.source.source_offset import PartitionOffsetMap


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchClaim:
    """`ends`: where the batch ends, of each partition that it reads. `lost`: those of them that the group has taken
    away meanwhile, which other members read."""

    batch: int
    ends: PartitionOffsetMap
    group: ConsumerGroupMetadata
    lost: Owned = NOTHING

    def moved(self, group: ConsumerGroupMetadata, owned: Owned) -> Self:
        """The same batch, now that the member stands there. What is lost stays lost, even if it comes back."""
        is_out = group.generation_id <= 0  # with no generation nothing would be checked
        lost = self.ends.keys() if is_out else self.ends.keys() - owned
        return replace(self, group=self.group if is_out else group, lost=self.lost | lost)

    def json(self) -> str:
        """As it is in the file."""
        ends, lost = [[*one, at] for one, at in sorted(self.ends.items())], sorted(self.lost)
        return json.dumps({"batch": self.batch, "ends": ends, "group": self.group, "lost": lost})

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `json` gave."""
        given = json.loads(text)
        return cls(
            batch=given["batch"],
            ends={TopicPartition(topic, partition): at for topic, partition, at in given["ends"]},
            group=ConsumerGroupMetadata(*given["group"]),
            lost=frozenset(TopicPartition(*one) for one in given["lost"]),
        )


def read_claim(query: str) -> BatchClaim | None:
    """Of the query with this id; None: its source has told nothing on this machine."""
    with suppress(FileNotFoundError):
        return BatchClaim.parse(_path(query).read_text(encoding="utf-8"))
    return None


class ClaimFile:
    """The source's end: it is there from the first claim to the end of the query."""

    def __init__(self) -> None:
        self._query: str | None = None
        self._claim: BatchClaim | None = None

    def write(self, query: str, claim: BatchClaim) -> None:
        """A batch begins. A reader finds this claim, or the one before, whole."""
        self._query, self._claim = query, claim
        file, name = tempfile.mkstemp(prefix="equipoise-claim-")
        with os.fdopen(file, "w", encoding="utf-8") as writing:
            writing.write(claim.json())
        os.replace(name, _path(query))

    def move(self, group: ConsumerGroupMetadata, owned: Owned) -> None:
        """The member's place has changed, perhaps."""
        if self._query is not None and self._claim is not None:
            moved = self._claim.moved(group, owned)
            if moved != self._claim:
                self.write(self._query, moved)

    def remove(self) -> None:
        """The query ends."""
        if self._query is not None:
            _path(self._query).unlink(missing_ok=True)
            self._query = None


def _path(query: str) -> Path:
    return Path(tempfile.gettempdir()) / f"equipoise-claim-{query}.json"
