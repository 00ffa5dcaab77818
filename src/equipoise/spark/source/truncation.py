"""Positions in a log that an unclean election has truncated since.

An offset in a checkpoint carries the leader's epoch at the time. A new leader is asked where that epoch ends in its log
(KIP-320; client/metadata/leader_epochs.py has the rules). If it ends before the position, records that were read are
lost, and the records that stand there now have not been read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from equipoise.client.metadata.leader_epochs import (
    NO_EPOCH,
    EpochAnswers,
    EpochQuestion,
    LogPosition,
    Truncation,
    find_truncation,
    needs_validation,
)
from equipoise.client.metadata.offset_for_leader_epoch import ask_epoch_ends
from equipoise.member.partitions import TopicPartition
from equipoise.spark.source.offset_reader import OffsetReader
from equipoise.wire.errors import EquipoiseError, KafkaError

log = logging.getLogger(__name__)

Positions = Mapping[TopicPartition, LogPosition]


class PositionValidation:
    """On the loop of its reader."""

    def __init__(self, reader: OffsetReader) -> None:
        self._reader = reader
        self._validated: dict[TopicPartition, tuple[LogPosition, int]] = {}  # what stands by the word of which epoch

    async def find_truncations(self, positions: Positions) -> list[tuple[TopicPartition, Truncation]]:
        """Positions whose leader lacks records before them. Tries for ever: bound it by a timeout."""
        unvalidated = {one: at for one, at in positions.items() if self._needs_validation(one, at)}
        found, failures = [], 0
        while unvalidated:
            for one, end in (await self._ask(unvalidated)).items():
                if isinstance(end, KafkaError):
                    raise end
                at = unvalidated.pop(one)
                truncation = find_truncation(at, end)
                if truncation is not None:
                    found.append((one, truncation))
                else:
                    self._validated[one] = at, self._reader.epochs.get(one, NO_EPOCH)
            failures += 1
            if unvalidated:
                await self._reader.lookup.pause(failures)
        return found

    def _needs_validation(self, one: TopicPartition, at: LogPosition) -> bool:
        """Another broker led when the position was taken than when the end of the log was looked up."""
        leader_epoch = self._reader.epochs.get(one, NO_EPOCH)
        known, validated = self._validated.get(one, (None, NO_EPOCH))
        return needs_validation(at, validated if known == at else at.leader_epoch, leader_epoch)

    async def _ask(self, positions: Positions) -> EpochAnswers:
        by_leader = self._reader.lookup.by_leader(positions)
        rounds = [
            self._ask_leader(node_id, {one: positions[one] for one in mine})
            for node_id, mine in by_leader.items()
            if node_id is not None
        ]
        answers: EpochAnswers = {}
        for one_round in await asyncio.gather(*rounds):
            answers |= one_round
        return answers

    async def _ask_leader(self, node_id: int, positions: Positions) -> EpochAnswers:
        cluster = self._reader.cluster
        questions = {
            one: EpochQuestion(leader.epoch, at)
            for one, at in positions.items()
            if (leader := cluster.leader(one)) is not None
        }
        try:
            return await ask_epoch_ends(cluster, node_id, questions)
        except EquipoiseError as error:
            log.debug("epochs: %s", error)
            return {}


def loss_of_records(partition: TopicPartition, truncation: Truncation) -> str:
    """The message for an unclean election, with the setting that prevents it."""
    (offset, _), divergent = truncation
    since = "" if divergent is None else f", from offset {divergent.offset} on"
    return (
        f"{partition} has lost records before offset {offset}{since}, which were read already: its new leader never "
        "had them (unclean.leader.election.enable=false prevents such losses)"
    )


def loss_of_topics(names: Iterable[str]) -> str:
    """The message for a topic that is another by now, under the same name."""
    return (
        f"topic {', '.join(sorted(names))} was deleted and created anew since the query has read it: its offsets mean "
        "nothing any more, and what was not read of the old one is lost"
    )
