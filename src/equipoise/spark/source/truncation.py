"""Places in a log that is not the one they were taken from: truncated by an unclean election, or made anew.

An offset in a checkpoint carries the leader's epoch at the time, and the id of its topic. If another leads now, it is
asked where that epoch ends in its log (KIP-320; rules: client/metadata/leader_epochs.py). Before the place: records
that were read are lost, and what stands there now has not been read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from equipoise.client.metadata.leader_epochs import (
    FIRST_FOR_READERS,
    EpochAnswers,
    EpochEnd,
    EpochQuestion,
    LogPosition,
    Truncation,
    epoch_ends,
    epochs_request,
    find_truncation,
    is_in_doubt,
)
from equipoise.client.net.connection import AsyncConnection
from equipoise.member.partitions import TopicPartition
from equipoise.spark.source.session import Session
from equipoise.wire.apis.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from equipoise.wire.errors import EquipoiseError, KafkaError, UsageError
from equipoise.wire.schema import ZERO_UUID

log = logging.getLogger(__name__)

Places = Mapping[TopicPartition, LogPosition]


class Truncations:
    """On the loop of its session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._checked: dict[TopicPartition, tuple[LogPosition, int]] = {}  # what stands by the word of which epoch

    async def find(self, places: Places) -> list[tuple[TopicPartition, Truncation]]:
        """Those whose leader lacks records before them. Tries for ever: bound it by a timeout."""
        doubts = {one: at for one, at in places.items() if self._is_in_doubt(one, at)}
        found, failures = [], 0
        while doubts:
            for one, end in (await self._ask(doubts)).items():
                if isinstance(end, KafkaError):
                    raise end
                at = doubts.pop(one)
                truncation = find_truncation(at, end)
                if truncation is not None:
                    found.append((one, truncation))
                else:
                    self._checked[one] = at, self._session.epochs.get(one, -1)
            failures += 1
            if doubts:
                await self._session.lookup.pause(failures)
        return found

    def _is_in_doubt(self, one: TopicPartition, at: LogPosition) -> bool:
        """The leader that told the end of the log is not the one that led when the place was taken."""
        now = self._session.epochs.get(one, -1)
        known, checked = self._checked.get(one, (None, -1))
        return is_in_doubt(at, checked if known == at else at.leader_epoch, now)

    async def _ask(self, doubts: Places) -> EpochAnswers:
        by_leader: dict[int, list[TopicPartition]] = {}
        for one in doubts:
            leader = self._session.cluster.leader(one)
            if leader is not None:
                by_leader.setdefault(leader.node_id, []).append(one)
        rounds = [self._ask_leader(node_id, mine, doubts) for node_id, mine in by_leader.items()]
        answers: EpochAnswers = {}
        for one_round in await asyncio.gather(*rounds):
            answers |= one_round
        return answers

    async def _ask_leader(self, node_id: int, mine: Iterable[TopicPartition], doubts: Places) -> EpochAnswers:
        cluster, config = self._session.cluster, self._session.config
        questions = {
            one: EpochQuestion(leader.epoch, doubts[one].leader_epoch)
            for one in mine
            if (leader := cluster.leader(one)) is not None
        }
        try:
            connection = await cluster.connection(node_id)
            if not _is_served(connection):  # as with Kafka's own consumer: what cannot be checked stands
                return {one: _standing(doubts[one]) for one in questions}
            answer = await connection.send(
                epochs_request(questions), OffsetForLeaderEpochResponse, config.request_timeout_ms / 1000
            )
        except EquipoiseError as error:
            log.debug("epochs: %s", error)
            return {}
        return epoch_ends(answer)


def _standing(at: LogPosition) -> EpochEnd:
    return EpochEnd(at.leader_epoch, at.offset)


def _is_served(connection: AsyncConnection) -> bool:
    try:
        return connection.version(OffsetForLeaderEpochRequest) >= FIRST_FOR_READERS
    except UsageError:
        return False


def told(partition: TopicPartition, truncation: Truncation) -> str:
    (offset, _), divergent = truncation
    since = "" if divergent is None else f", from offset {divergent.offset} on"
    return (
        f"{partition} has lost records before offset {offset}{since}, which were read already: its new leader never "
        "had them (unclean.leader.election.enable=false prevents such losses)"
    )


# -- topics by id


def topic_ids(session: Session, topics: Iterable[str]) -> dict[str, str]:
    """Of those that have one: old brokers give none."""
    found = {name: session.cluster.topics[name].topic_id for name in topics if name in session.cluster.topics}
    return {name: id_.hex() for name, id_ in found.items() if id_ != ZERO_UUID}


def made_anew(session: Session, known: Mapping[str, str]) -> set[str]:
    """Topics of which the cluster has another under the same name, by what it said last."""
    ids = topic_ids(session, known)
    return {name for name, id_ in known.items() if ids.get(name, id_) != id_}


async def hear_of(session: Session, topics: Iterable[str]) -> None:
    """So that the cluster has said something of them."""
    if not set(topics) <= session.cluster.topics.keys():
        session.cluster.know_also(topics)
        await session.cluster.refresh()


def loss_of_topics(names: Iterable[str]) -> str:
    return (
        f"topic {', '.join(sorted(names))} was deleted and created anew since the query has read it: its offsets mean "
        "nothing any more, and what was not read of the old one is lost"
    )
