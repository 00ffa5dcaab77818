"""What a test does to the brokers of a running process, on its loop: by names and node ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.broker.topics.topics import OFFSETS_TOPIC
from equipoise.coordinator.placement import partition_for
from equipoise.wire.errors import KafkaError, UsageError

if TYPE_CHECKING:
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition


async def kill(server: Server, broker: int) -> None:
    """Its connections are reset; the others lead what it has led."""
    server.cluster.kill(broker)


async def stop(server: Server, broker: int) -> None:
    """The others lead what it has led; then its connections end."""
    server.cluster.stop(broker)


async def start(server: Server, broker: int) -> None:
    """A broker that was stopped or killed is back."""
    await server.cluster.start(broker)


async def cut(server: Server, broker: int) -> None:
    """No client reaches it any more, and it leads on."""
    server.cluster.cut(broker)


async def heal(server: Server, broker: int) -> None:
    """Clients reach it again."""
    await server.cluster.heal(broker)


async def move_leader(server: Server, topic: str, partition: int, to: int) -> None:
    """This broker leads the partition, in a new epoch."""
    server.cluster.move(_find(server, topic, partition), to)


async def move_coordinator(server: Server, group: str, to: int) -> None:
    """This broker coordinates the group, and all others of its partition of `__consumer_offsets`."""
    shards = server.group_coordinator.shards
    server.cluster.move(_find(server, OFFSETS_TOPIC, partition_for(group, len(shards))), to)


async def elect_preferred(server: Server) -> None:
    """Every partition has its preferred leader again, if that is running."""
    server.cluster.elect_all_preferred()


async def elect_unclean(server: Server, topic: str, partition: int, *, to: int, lose: int) -> int:
    """A broker leads that lacks the last records. The end of the log, and so the first offset of the new epoch."""
    if lose < 0:
        raise UsageError(f"lose={lose}: so many records are lost; 0: none")
    return await server.cluster.elect_unclean(_find(server, topic, partition), to, lose)


def _find(server: Server, topic: str, partition: int) -> Partition:
    try:
        return server.topics.partition(topic, partition)
    except KafkaError as error:
        raise UsageError(error.message) from None
