"""All shards of the group coordinator: where a group lives, the topic `__consumer_offsets`, loading, and the image of
topics."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.config import BrokerConfig
from equipoise.broker.groups.carriers import Carriers
from equipoise.broker.groups.journal import GroupJournal
from equipoise.broker.groups.preparation import Preparation
from equipoise.broker.groups.regexes import TopicRegexResolver
from equipoise.broker.groups.shards import GroupShard
from equipoise.broker.groups.targets import TargetThread
from equipoise.broker.shard_life import ShardedCoordinator
from equipoise.broker.topics.topics import OFFSETS_TOPIC
from equipoise.coordinator.config import GroupConfig
from equipoise.coordinator.metadata import EMPTY_IMAGE, TopicImage
from equipoise.coordinator.placement import partition_for
from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call
    from equipoise.broker.server import Server
    from equipoise.broker.topics.topics import Partition


def _group_config(config: BrokerConfig) -> GroupConfig:
    return GroupConfig(**{row.name: getattr(config, row.name) for row in fields(GroupConfig)})


class GroupCoordinator(ShardedCoordinator[GroupShard, Shard]):
    """The shards of groups, on `__consumer_offsets`, and what they share."""

    topic_name = OFFSETS_TOPIC

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.config = _group_config(server.config)
        self.image = EMPTY_IMAGE
        self._changed_topics: dict[str, None] = {}  # since the image
        self._journal = GroupJournal(server)
        self.configs = server.group_configs
        self.carriers = Carriers(self)
        self.regexes = TopicRegexResolver(server)
        self.preparation = Preparation(self._prepared)
        self.targets = TargetThread(server)
        self._elsewhere: GroupShard | None = None  # what a broker sees of a shard of another
        self._to_load: deque[GroupShard] = deque()
        self._loading: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Loads the groups there are. Until a shard is loaded its clients are asked to wait."""
        self._server.topics.on_seen = self._topic_changed
        self._changed_topics = dict.fromkeys(topic.name for topic in self._server.topics)
        self._update_image()
        self._load(*self._open_topic())

    def _runner(self, partition: Partition) -> GroupShard:
        return GroupShard(self._server, self._journal, partition)

    def _layout(self) -> tuple[int, dict[str, str]]:
        config = self._server.config
        size = str(config.offsets_topic_segment_bytes)
        return config.offsets_topic_num_partitions, {"compression.type": "producer", "segment.bytes": size}

    def _load_again(self, shard: GroupShard) -> None:
        self._load(shard)

    def _load(self, *shards: GroupShard) -> None:
        self._to_load.extend(shards)
        if not self._to_load:
            return
        if self._loading is None or self._loading.done():
            self._loading = asyncio.get_running_loop().create_task(self._load_on())

    async def _load_on(self) -> None:
        while self._to_load:
            await self._to_load.popleft().load()

    async def loaded(self) -> None:
        """Waits until all shards that there are have been loaded, or cannot be."""
        if self._loading is not None:
            await asyncio.wait([self._loading])

    def shard_for(self, call: Call, group_id: str) -> GroupShard:
        """The same for a request of a client. A broker that does not lead the shard has none of its groups, and answers
        NOT_COORDINATOR."""
        shards = self._shards or self.shards
        shard = shards[partition_for(group_id, len(shards))]
        if self._server.cluster.is_many and shard.node_id != call.connection.listener.node_id:
            return self._closed_shard(shard)
        return shard

    def _closed_shard(self, like: GroupShard) -> GroupShard:
        if self._elsewhere is None:
            self._elsewhere = self._runner(like.partition)
            self._elsewhere.retire()
        return self._elsewhere

    def shards_of(self, call: Call) -> list[GroupShard]:
        """Those of the broker that the caller has asked."""
        node_id = call.connection.listener.node_id
        return [shard for shard in self.shards if shard.node_id == node_id]

    def _prepared(self) -> None:
        for shard in self._shards:
            shard.core.is_prepared = True

    # -- topics

    def _topic_changed(self, name: str) -> None:
        """A request may create thousands of topics: they make one image, in the next turn of the loop."""
        if not self._changed_topics:
            asyncio.get_running_loop().call_soon(self._update_image)
        self._changed_topics[name] = None

    def _update_image(self) -> None:
        """Rule A13.2. Kafka: GroupCoordinatorService.onMetadataUpdate."""
        changed, self._changed_topics = self._changed_topics, {}
        found = [topic for name in changed if (topic := self._server.topics.get(name)) is not None]
        put = [
            TopicImage(one.topic_id, one.name, len(one.partitions), self._server.cluster.racks_of(one)) for one in found
        ]
        self.image = self.image.with_changes(put, changed.keys() - {one.name for one in found})
        self.image.prepare(changed)
        for shard in self._shards:
            shard.run(shard.core.metadata_changed(self.image, changed, self._server.clock.now()))

    def topic_deleted(self, topic: str, topic_id: bytes) -> None:
        """Offsets of the topic go, also those that are just being written, and those of a shard that still loads."""
        for shard in self._shards:
            forget = partial(self._forget_topic, shard, topic, topic_id)
            shard.after_load(partial(shard.after_writes, forget))

    def _forget_topic(self, shard: GroupShard, topic: str, topic_id: bytes) -> None:
        if shard.core.status is Status.ACTIVE:
            under_way = shard.commits_under_way_of(topic, topic_id)
            shard.run(shard.core.topic_deleted(topic, topic_id, self._server.clock.now(), under_way))

    async def close(self) -> None:
        """Ends loading, closes all shards, and writes the rest of the journal."""
        self.preparation.end()
        self.targets.end()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        for shard in self._shards:
            shard.close()
        self._journal.finish()
