"""OffsetForLeaderEpoch (KIP-320) asked of a leader, for consumers and Spark. leader_epochs.py has the rules."""

from __future__ import annotations

from equipoise.client.metadata.cluster import Cluster
from equipoise.client.metadata.leader_epochs import (
    FIRST_FOR_READERS,
    EpochAnswers,
    EpochEnd,
    EpochQuestions,
    epoch_ends,
    epochs_request,
)
from equipoise.client.net.connection import AsyncConnection
from equipoise.wire.apis.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from equipoise.wire.errors import UsageError


async def ask_epoch_ends(cluster: Cluster, node_id: int, questions: EpochQuestions) -> EpochAnswers:
    """What the leader of these partitions answers. KafkaConnectionError: it does not answer, or leads no more.

    Where brokers are too old to be asked, every position stands
    (OffsetFetcherUtils.hasUsableOffsetForLeaderEpochVersion).
    """
    if not _serves_readers(await cluster.connection(node_id)):
        return {partition: EpochEnd(*reversed(asked.position)) for partition, asked in questions.items()}
    request = epochs_request(questions)
    answer = await cluster.leader_answer(node_id, questions, request, OffsetForLeaderEpochResponse)
    return epoch_ends(answer, cluster.config)


def _serves_readers(connection: AsyncConnection) -> bool:
    try:
        return connection.version(OffsetForLeaderEpochRequest) >= FIRST_FOR_READERS
    except UsageError:
        return False
