"""The broker on its event loop: the state that handlers share, the connections, and periodic work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from equipoise.broker.background_tasks import BackgroundTasks
from equipoise.broker.cluster.cluster import Cluster
from equipoise.broker.config import BrokerConfig
from equipoise.broker.groups.configs import GroupConfigs
from equipoise.broker.handlers import Route, find_route
from equipoise.broker.late_imports import LateImports
from equipoise.broker.net import descriptors
from equipoise.broker.net.authorizer import (
    ALL_OPERATIONS,
    AUTHORIZATION_FAILED,
    OPERATIONS,
    AclAuthorizer,
    Authorizer,
    Denials,
    allow_all,
)
from equipoise.broker.net.client_warnings import ClientWarnings
from equipoise.broker.net.connection import Call, Connection
from equipoise.broker.net.memory_pool import MemoryPool
from equipoise.broker.net.purgatory import Completion
from equipoise.broker.net.throttling import Throttling
from equipoise.broker.net.turns import Turns
from equipoise.broker.security_store import SecurityStore
from equipoise.broker.topics.batch_thread import BatchThread
from equipoise.broker.topics.fetch_sessions import FetchSessionCache
from equipoise.broker.topics.topics import OFFSETS_TOPIC, Partition, Topic, Topics
from equipoise.broker.topics.validation_queue import ValidationQueue
from equipoise.coordinator.wall_time import WallTime
from equipoise.log.producer_state import UNVERIFIED, TxnMarker, Verification
from equipoise.log.storage.flusher import Flusher
from equipoise.log.storage.kernel_sync import open_kernel_sync
from equipoise.security.acls import (
    ANY_NAME,
    CLUSTER,
    Acl,
    AclOperation,
    Resource,
    ResourceType,
    StandardAuthorizer,
    parse_super_users,
)
from equipoise.settings import is_host
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.records.batch import BatchHeader

if TYPE_CHECKING:
    from equipoise.broker.clock import Clock
    from equipoise.broker.control import Control
    from equipoise.broker.first_users import FirstUser
    from equipoise.broker.groups.coordinator import GroupCoordinator
    from equipoise.broker.metrics import BrokerMetrics
    from equipoise.broker.transactions.coordinator import TransactionCoordinator
    from equipoise.log.partition import LogAppendInfo
    from equipoise.log.storage.directory import DataDirectory, MemoryDirectory

log = logging.getLogger(__name__)

_RECEIVE_BUFFER = 1 << 18
_DESCRIBE = AclOperation.DESCRIBE


class Server:
    """One broker, from start to close. All of it runs on one event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        directory: DataDirectory | MemoryDirectory,
        clock: Clock,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.config = config
        self.directory = directory
        self.clock = clock
        self.topics = Topics(directory, config)
        self.fetch_sessions = FetchSessionCache(config.max_incremental_fetch_session_cache_slots)
        self.group_configs = GroupConfigs(self)
        self._group_coordinator: GroupCoordinator | None = None
        self._transaction_coordinator: TransactionCoordinator | None = None
        self.security = SecurityStore(self)
        self.first_users: list[FirstUser] = []
        self.first_acls: list[Acl] = []
        self.throttling = Throttling(self)
        self.security.on_change = self.throttling.update
        self.connections: set[Connection] = set()
        self.memory_pool = MemoryPool(config.queued_max_request_bytes, clock)
        self.receive_buffer = memoryview(bytearray(_RECEIVE_BUFFER))
        self._authorizer = self._configured_authorizer() if authorizer is None else authorizer
        self.allows_all = self._authorizer is allow_all
        self.denials = Denials(self._authorizer)
        self._routes: dict[tuple[int, int], Route] = {}
        self.metrics: BrokerMetrics | None = None  # who measures it
        self.control: Control | None = None  # what is done to its clients
        self.cluster = Cluster(self)
        self.listeners = self.cluster.nodes[config.node_id].listeners  # those of the first broker
        self.expired_connections_killed = 0  # because nobody authenticated again (KIP-368)
        self.lookups = BatchThread("lookups")
        self.validation_queue = ValidationQueue(self)
        self._descriptors = descriptors.budget(volatile=directory.volatile)
        self._refused = 0  # connections, since it was last said
        self._background_tasks = BackgroundTasks(self)
        self.gathered: dict[Connection, None] | None = None  # with replies to send, while `_together` runs
        loop = asyncio.get_running_loop()
        self.turns = Turns(loop)
        self._late_imports = LateImports(self._open_coordinators)
        self.client_warnings = ClientWarnings(clock.now)
        self._kernel_sync = None if directory.volatile else open_kernel_sync()
        self.flusher = Flusher(
            lambda end_round: loop.call_soon_threadsafe(self._together, end_round), self._kernel_sync
        )

    def _configured_authorizer(self) -> Authorizer:
        """ACLs decide if `authorizer.class.name` says so."""
        if not self.config.authorizer_class_name:
            return allow_all
        acls = self.security.state.authorizer
        acls.configure(
            parse_super_users(self.config.super_users),
            allow_everyone_if_no_acl_found=self.config.allow_everyone_if_no_acl_found,
        )
        return AclAuthorizer(acls)

    # -- what handlers ask

    @property
    def node_id(self) -> int:
        """The id of the first broker, mostly the only one."""
        return self.config.node_id

    @property
    def cluster_id(self) -> str:
        """The cluster's id in Metadata."""
        return self.directory.cluster_id

    def wall_time_of(self, now: int) -> WallTime:
        """What the wall clock, as it is set now, showed at a moment of `clock.now()`."""
        return WallTime(now + self.clock.wall_time() - self.clock.now())

    @property
    def rack(self) -> str | None:
        """The rack of the first broker; None: it has none."""
        return self.config.racks[0]

    @property
    def address(self) -> str:
        """HOST:PORT of the first listener."""
        return self.listeners.all[0].address

    @property
    def addresses(self) -> str:
        """The same of each broker, with commas between."""
        return ",".join(node.address for node in self.cluster.nodes.values())

    @property
    def host(self) -> str:
        """Of the first listener."""
        return self.listeners.all[0].host

    @property
    def port(self) -> int:
        """Of the first listener."""
        return self.listeners.all[0].port

    def is_authorized(self, call: Call, operation: AclOperation, resource: Resource, *, quiet: bool = False) -> bool:
        """Whether the authorizer allows it to the session of the caller's connection. A denial is logged, except of
        what was not asked for by name (`quiet`)."""
        if self.allows_all or self._authorizer(call.connection.session, operation, resource):
            return True
        if not quiet:
            self.denials.note(call, operation, resource)
        return False

    def authorize(self, call: Call, operation: AclOperation, resource: Resource) -> None:
        """Raises the resource's own error where the authorizer refuses."""
        if not self.is_authorized(call, operation, resource):
            raise KafkaError(
                AUTHORIZATION_FAILED[resource.type],
                f"{operation.name} on {resource.type.name} {resource.name} is denied",
            )

    def is_authorized_by_type(self, call: Call, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether some resource of the type is allowed (Authorizer.authorizeByResourceType)."""
        if not isinstance(self._authorizer, AclAuthorizer):
            return self.is_authorized(call, operation, Resource(kind, ANY_NAME), quiet=True)
        return self._authorizer.by_resource_type(call.connection.session, operation, kind)

    def authorized_operations(self, call: Call, resource: Resource) -> int:
        """What the caller may do to the resource, as bits (AuthHelper.authorizedOperations)."""
        if self.allows_all:
            return ALL_OPERATIONS[resource.type]
        each = OPERATIONS[resource.type]
        return sum(1 << one for one in each if self.is_authorized(call, one, resource, quiet=True))

    def cluster_operations(self, call: Call) -> int:
        """The same for the cluster; none where the caller may not describe it."""
        return self.authorized_operations(call, CLUSTER) if self.is_authorized(call, _DESCRIBE, CLUSTER) else 0

    @property
    def acls(self) -> StandardAuthorizer | None:
        """The ACLs, if they decide."""
        return self._authorizer.acls if isinstance(self._authorizer, AclAuthorizer) else None

    def find_partition(self, call: Call, operation: AclOperation, topic: str | bytes, index: int) -> Partition:
        """The partition, if the caller may do this to it and it is there."""
        self.find_topic(call, operation, topic)
        return self.topics.partition(topic, index)

    def find_led(self, call: Call, operation: AclOperation, topic: str | bytes, index: int) -> Partition:
        """The same, if the broker leads it that the caller has asked (ReplicaManager.getPartitionOrException)."""
        self.find_topic(call, operation, topic)
        partition = self.topics.partition(topic, index)
        if self.cluster.is_many:
            self.cluster.check_leader(call, partition)
        return partition

    def find_topic(self, call: Call, operation: AclOperation, key: str | bytes) -> Topic:
        """An unauthorized client does not learn whether the topic exists, unless it knows the id."""
        if not self.allows_all:
            name = key if isinstance(key, str) else self.topics.require_id(key).name
            self.authorize(call, operation, Resource(ResourceType.TOPIC, name))
        return self.topics.find(key)

    def visible_topics(self, call: Call) -> list[Topic]:
        """The topics that the caller may describe."""
        return [
            topic
            for topic in self.topics
            if self.is_authorized(call, _DESCRIBE, Resource(ResourceType.TOPIC, topic.name), quiet=True)
        ]

    def route(self, api_key: int, version: int) -> Route:
        """The handler and codecs of one API and version, compiled once."""
        found = self._routes.get((api_key, version))
        if found is None:
            found = self._routes[api_key, version] = find_route(api_key, version)
            if self.metrics is not None:
                self.metrics.measure(found)
            if self.control is not None:
                self.control.wrap(found)
        return found

    def take_control(self, control: Control) -> None:
        """From now on requests may meet faults, those of every connection that is there too."""
        self.control = control
        for route in self._routes.values():
            control.wrap(route)
        for connection in self.connections:
            connection.decode_all()

    def append(
        self,
        partition: Partition,
        data: memoryview,
        batches: Sequence[tuple[int, BatchHeader]],
        wall_time: int,
        *,
        keyed: bool = False,
        verification: Verification = UNVERIFIED,
    ) -> LogAppendInfo:
        """Appends. Watchers of the partition are woken when the records can be read."""
        log_ = partition.log
        appended = log_.append(data, batches, wall_time, partition.leader_epoch, keyed=keyed, verification=verification)
        if log_.unsynced:
            self.flusher.dirty(log_)
        return appended

    def append_marker(self, partition: Partition, marker: TxnMarker) -> LogAppendInfo:
        """Ends a producer's transaction in the partition. Readers see it when the marker is durable; offsets that were
        committed with it count from then on, too."""
        if partition.topic.name == OFFSETS_TOPIC:
            appended = self.group_coordinator.shards[partition.index].append_marker(marker)
        else:
            appended = partition.append_marker(marker, self.clock.wall_time())
        if partition.log.unsynced:
            self.flusher.dirty(partition.log)
        return appended

    # -- coordinators

    @property
    def group_coordinator(self) -> GroupCoordinator:
        """The shards of groups. The first caller opens them, if they are not open yet: see `late_imports.py`."""
        return self._group_coordinator or self._open_groups()

    @property
    def has_groups(self) -> bool:
        """Whether the groups are open: before that no connection has carried a member."""
        return self._group_coordinator is not None

    def _open_groups(self) -> GroupCoordinator:
        from equipoise.broker.groups.coordinator import GroupCoordinator

        made = self._group_coordinator = GroupCoordinator(self)
        made.open()
        return made

    @property
    def transaction_coordinator(self) -> TransactionCoordinator:
        """The same for transactions."""
        return self._transaction_coordinator or self._open_transactions()

    def _open_transactions(self) -> TransactionCoordinator:
        from equipoise.broker.transactions.coordinator import TransactionCoordinator

        made = self._transaction_coordinator = TransactionCoordinator(self)
        made.open()
        return made

    def _open_coordinators(self) -> None:
        """What they have in the log is loaded from now on."""
        _ = self.group_coordinator, self.transaction_coordinator

    # -- connections

    def _together(self, work: Callable[[], None]) -> None:
        """What `work` releases leaves when it is done, each connection's replies in one piece."""
        self.gathered = {}
        try:
            work()
        finally:
            connections, self.gathered = self.gathered, None
            for connection in connections:
                connection.send()

    def has_room(self, more: int = 0) -> bool:
        """Whether one more connection is kept, when so many more are under way."""
        return len(self.connections) + more < min(self.config.max_connections, self._descriptors.connections)

    def connected(self, connection: Connection) -> bool:
        """Keeps a new connection, or refuses it where there are too many."""
        listener = connection.listener
        if not self.cluster.nodes[listener.node_id].is_open:
            connection.reset()
            return False
        if not listener.has_room_for(connection.peer):
            connection.refuse(f"listener {listener.name} has as many connections as it may have")
            return False
        if not self.has_room():
            most = min(self.config.max_connections, self._descriptors.connections)
            self._refused += 1
            if self._refused == 1:
                why = "max.connections" if most == self.config.max_connections else "what the file descriptors allow"
                log.warning(
                    "%s: refused, as is everybody until fewer are connected: %s is %d; raise it, or close some",
                    connection.peer,
                    why,
                    most,
                )
            connection.abort()
            return False
        self.connections.add(connection)
        listener.connections_of[connection.peer] += 1
        return True

    def disconnected(self, connection: Connection) -> None:
        """Forgets a connection that has ended."""
        if connection in self.connections:
            self.connections.remove(connection)
            connection.listener.forget(connection.peer)
        self.fetch_sessions.disconnected(connection)
        if self.has_groups:
            self.group_coordinator.carriers.ended(connection.carried, self.clock.now())
        most = min(self.config.max_connections, self._descriptors.connections)
        if self._refused and len(self.connections) <= most * 9 // 10:
            log.warning("connections are accepted again, %d were refused", self._refused)
            self._refused = 0

    async def listen(self, host: str, port: int) -> None:
        """Accepts connections, then loads the groups. Host and port are those of a broker without `listeners`."""
        self._descriptors.describe(sum(self.topics.counts().values()))
        self.security.load()
        if not self.directory.volatile:
            self.flusher.start()
            if self._kernel_sync is not None:
                collect = partial(self._together, self.flusher.collect_synced)
                asyncio.get_running_loop().add_reader(self._kernel_sync.descriptor, collect)
        await self.security.add_users(self.first_users)
        await self.security.add_acls(self.first_acls)
        await self.cluster.open(host, port)
        self.lookups.start()
        self.validation_queue.thread.start()
        self._background_tasks.start()
        self._late_imports.begin()

    async def stop(self) -> None:
        """What is written is flushed, delayed operations are completed, connections are closed."""
        self._background_tasks.stop()
        self.cluster.close()
        await asyncio.sleep(0)  # who was accepted at the last moment is known, and closed with the others
        self._late_imports.finish()
        if self._transaction_coordinator is not None:
            await self._transaction_coordinator.close()
        if self._group_coordinator is not None:
            await self._group_coordinator.close()
        await self.lookups.close()
        await self.validation_queue.thread.close()
        if self._kernel_sync is not None:
            asyncio.get_running_loop().remove_reader(self._kernel_sync.descriptor)
        self.flusher.close()
        for connection in list(self.connections):
            connection.complete_delayed(Completion.SHUTDOWN)
            connection.close()
        await self._background_tasks.finish()
        await asyncio.sleep(0)  # the last replies leave
        await self._abandon_tls()
        self.directory.close()

    async def _abandon_tls(self) -> None:
        """A client that does not answer the end of TLS would keep the loop from closing."""
        await self.cluster.end_handshakes()
        for connection in list(self.connections):
            if connection.listener.tls is not None:
                connection.abort()
        for _ in range(2):
            await asyncio.sleep(0)  # the transports close


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT, also [::1]:9092 and with a `PLAINTEXT://` before it."""
    host, separator, port = str(text).rpartition("://")[2].rpartition(":")
    if not separator or (host and not is_host(host)) or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{text!r} is no address: write HOST:PORT, for instance 127.0.0.1:9092")
    return host.strip("[]"), int(port)
