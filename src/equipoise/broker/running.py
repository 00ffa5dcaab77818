"""A broker from start to stop: in a thread of this process (`Broker`), or as the process itself (`serve`)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from equipoise.broker.clock import Clock, LoopClock, VirtualClock
from equipoise.broker.cluster import actions
from equipoise.broker.cluster.live_broker import LiveBrokers
from equipoise.broker.config import BrokerConfig
from equipoise.broker.late_imports import import_all
from equipoise.broker.net import descriptors
from equipoise.broker.security.quick import PLAINTEXT, Security
from equipoise.broker.server import Server, parse_address
from equipoise.log.partition import Flush
from equipoise.log.storage.directory import DataDirectory, MemoryDirectory
from equipoise.security.acls import Acl, check_new
from equipoise.wire.errors import KafkaError, UsageError

if TYPE_CHECKING:
    from equipoise.broker.control import Fault, Standing
    from equipoise.broker.first_users import FirstUser
    from equipoise.broker.inspect import LiveGroups, TopicSnapshots

Result = TypeVar("Result")
DEFAULT_LISTEN = "127.0.0.1:9092"
_NOT_RUNNING = "the broker is not running: use `with Broker() as broker:` or call start()"
_LOOK_S = 0.5  # after so long a call looks whether the broker still runs


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where there is one."""
    try:
        import uvloop
    except ImportError:  # not to be had on Windows; asyncio does the same work with more CPU
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def run_server(
    config: BrokerConfig,
    directory: DataDirectory | MemoryDirectory,
    address: tuple[str, int],
    *,
    ready: Callable[[Server], None],
    stopping: asyncio.Event,
    first_users: Sequence[FirstUser] = (),
    first_acls: Sequence[Acl] = (),
    clock: Clock | None = None,
) -> None:
    """Serves until `stopping` is set. Calls `ready` once connections are accepted."""
    try:
        server = Server(config, directory, clock or LoopClock(asyncio.get_running_loop()))
    except BaseException:
        directory.close()  # the directory can be mended and opened again, perhaps in this process
        raise
    try:
        server.first_users += first_users
        server.first_acls += first_acls
        await server.listen(*address)
        ready(server)
        await stopping.wait()
    finally:
        await server.stop()


def open_directory(data: str | Path | None, config: BrokerConfig) -> DataDirectory | MemoryDirectory:
    """The data directory, or memory where none is named."""
    if data is None:
        return MemoryDirectory()
    if data == "":  # else the files would lie wherever the process was started
        raise UsageError("the data directory has an empty name: name one, for instance ./data")
    open_files = descriptors.budget(volatile=False).files
    flush: Flush = "never" if config.flush == "never" else "commit"
    return DataDirectory(Path(data), node_id=config.node_id, flush=flush, open_files=open_files)


def _first_users(texts: Sequence[str]) -> list[FirstUser]:
    if not texts:
        return []
    from equipoise.broker.first_users import parse_first_users  # most brokers have none

    return parse_first_users(texts)


def _collect_seldom() -> None:
    """Collects all garbage rarely: cycles are rare here, and thousands of waiting requests look like a leak to the
    collector. What is young is looked at in small portions, a few milliseconds each, because the loop stands meanwhile.
    """
    gc.freeze()
    gc.set_threshold(3_000, 2, 16_000)


def serve(
    listen: str | None,
    data: str | Path | None,
    settings: Mapping[str, object],
    ready: Callable[[Server], None],
    *,
    security: Security = PLAINTEXT,
    add_scram: Sequence[str] = (),
) -> None:
    """Runs a broker until SIGTERM or SIGINT. Calls `ready`, on its loop, when it accepts connections."""
    config = BrokerConfig.parse(security.settings(settings, listen))
    address = parse_address(listen or DEFAULT_LISTEN)
    first_users = _first_users(add_scram)
    descriptors.raise_limit()
    _collect_seldom()
    directory = open_directory(data, config)
    security.prepare(config)

    async def main() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows: SIGINT raises KeyboardInterrupt
                loop.add_signal_handler(signum, stopping.set)
        begin = reloading(ready)
        await run_server(config, directory, address, ready=begin, stopping=stopping, first_users=first_users)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())


def reloading(ready: Callable[[Server], None]) -> Callable[[Server], None]:
    """Certificates and users are read again on SIGHUP, too."""

    def ready_with_signal(server: Server) -> None:
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows has no such signal
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.cluster.reload)
        ready(server)

    return ready_with_signal


def _checked_settings(settings: object) -> Mapping[str, object]:
    """UsageError: they are no settings by name."""
    if not isinstance(settings, Mapping):
        raise UsageError(f'settings={settings!r}: give them by name, as {{"num.partitions": 6}}')
    return settings


def _checked_topics(topics: object) -> dict[str, int]:
    """UsageError: they are no names with numbers of partitions."""
    if not isinstance(topics, Mapping) or not all(type(count) is int for count in topics.values()):
        raise UsageError(f'topics={topics!r}: give names with their numbers of partitions, as {{"orders": 6}}')
    return dict(topics)


def _checked_acls(acls: Iterable[Acl]) -> list[Acl]:
    """UsageError: one of them cannot be an ACL."""
    checked = list(acls)
    for acl in checked:
        if not isinstance(acl, Acl):
            raise UsageError(f"acls: {acl!r} is no equipoise.client.Acl")
        try:
            check_new(acl)
        except KafkaError as error:
            raise UsageError(f"acls: {error}") from None
    return checked


class Broker:
    """A broker in this process, in a thread of its own, ready when entered.

        with Broker() as broker:
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    Without `data` everything is kept in memory and gone afterwards. `settings` are Kafka's broker settings by name.
    `topics` are created at the start, with so many partitions, where they are not there yet: `{"orders": 6}`.
    `security` is SSL, SASL_SSL or SASL_PLAINTEXT, with a certificate authority of its own; `users` are the names and
    passwords for SASL. `client_settings` gives what a client needs to connect. With `acls` these rules decide, and
    whatever they do not allow is denied; `super.users` of the settings may do everything. `strict`: groups
    have Kafka's answers and timing to the letter, without our additions. `clock`: a VirtualClock that a test moves on.
    `brokers`: so many, with node ids from 1 on, in this one process and with one log: for tests of failover.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        data: str | Path | None = None,
        listen: str = "127.0.0.1:0",
        security: str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
        acls: Iterable[Acl] | None = None,
        strict: bool = False,
        clock: VirtualClock | None = None,
        brokers: int = 1,
    ) -> None:
        self._security = Security.in_scratch(security, users or {}, data)
        authorizer = {} if acls is None else {"authorizer.class.name": "acl"}
        many = {"brokers": brokers} if brokers != 1 else {}
        own = _checked_settings({} if settings is None else settings)
        wanted = {**authorizer, **own, **({"strict": True} if strict else {}), **many}
        self._config = BrokerConfig.parse(self._security.settings(wanted, listen))
        self._acls = _checked_acls(acls or ())
        self._clock = clock
        self._wanted_topics = _checked_topics({} if topics is None else topics)
        self._address = parse_address(listen)
        self._data = data
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._failure: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._server: Server | None = None

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for a client's `bootstrap.servers`; of several brokers all."""
        return self.server.addresses

    @property
    def ca_file(self) -> Path:
        """The certificate of the broker's own authority, for a client's `ssl.ca.location`."""
        return self._security.ca_file

    def client_settings(self, user: str | None = None, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        """What a client needs to connect as `user`, or as the only user there is."""
        return {"bootstrap.servers": self.bootstrap_servers, **self._security.client_settings(user, mechanism)}

    @property
    def server(self) -> Server:
        """The running server. Touch it only on its loop: see `call`."""
        if self._server is None:
            raise RuntimeError(_NOT_RUNNING)
        return self._server

    @property
    def groups(self) -> LiveGroups:
        """Every group by its id: state, members with their partitions, rebalances with their causes."""
        from equipoise.broker.inspect import LiveGroups  # only tests look: a served broker starts without it

        return LiveGroups(self)

    @property
    def topics(self) -> TopicSnapshots:
        """Every topic by its name."""
        from equipoise.broker.inspect import TopicSnapshots

        return TopicSnapshots(self)

    @property
    def brokers(self) -> LiveBrokers:
        """Every broker of this process by its node id: `broker.brokers[2].kill()`."""
        return LiveBrokers(self)

    def coordinator_of(self, group_id: str) -> int:
        """The node id of the broker that coordinates the group; -1: none is running that could."""
        return self.call(lambda server: server.group_coordinator.node_of(group_id))

    def move_coordinator(self, group_id: str, to: int) -> None:
        """This broker coordinates the group now, and those beside it in its partition of `__consumer_offsets`. They are
        loaded from the log."""
        self.call_async(lambda server: actions.move_coordinator(server, group_id, to))

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """This broker leads the partition now, in a new epoch."""
        self.call_async(lambda server: actions.move_leader(server, topic, partition, to))

    def elect_leaders(self) -> None:
        """The preferred leader of every partition leads it again, if it is running."""
        self.call_async(actions.elect_preferred)

    def elect_unclean(self, topic: str, partition: int, *, to: int, lose: int) -> int:
        """A broker leads that lacks the last records: whole batches are cut off, with `lose` records at least, though
        they were acknowledged. Returns the end of the log, where the new epoch begins."""
        return self.call_async(lambda server: actions.elect_unclean(server, topic, partition, to=to, lose=lose))

    def start(self) -> Self:
        """Returns when the broker accepts connections. Raises what keeps it from that.

        Does nothing if the broker is running already (BrokerServer.startup): a second one would answer in its
        place, and nobody could stop the first.
        """
        if self._thread is not None and self._thread.is_alive():
            return self
        self._started.clear()
        self._failure = None
        import_all()
        self._thread = threading.Thread(target=self._run, name="equipoise-broker", daemon=True)
        self._thread.start()
        self._started.wait()
        self._raise_failure(self._thread)
        return self

    def _raise_failure(self, thread: threading.Thread) -> None:
        if self._failure is not None:
            thread.join()  # a later start would take a thread that still ends for a broker that runs
            self._thread = None
            raise self._failure

    def stop(self) -> None:
        """Flushes, closes all connections and ends the thread. Does nothing if the broker is not running."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None or self._stopping is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop has failed, and is closed
            self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join()
        self._server = None

    def call(self, function: Callable[[Server], Result]) -> Result:
        """Runs `function` on the broker's loop, where it may read the state, and returns its result."""

        async def run(server: Server) -> Result:
            return function(server)

        return self.call_async(run)

    def call_async(self, function: Callable[[Server], Coroutine[Any, Any, Result]]) -> Result:
        """The same for a coroutine. RuntimeError: the broker does not run, or not in this process (a child of a fork
        has no thread but its own)."""
        thread = self._thread
        if thread is None or self._loop is None or not thread.is_alive():
            raise RuntimeError(_NOT_RUNNING)
        if thread is threading.current_thread():
            raise RuntimeError("this runs on the broker's loop, which would wait for itself: use the server at hand")
        found = asyncio.run_coroutine_threadsafe(function(self.server), self._loop)
        while not wait([found], _LOOK_S).done:
            if not thread.is_alive():  # another thread has stopped it meanwhile
                raise RuntimeError(_NOT_RUNNING)
        return found.result()

    def control(self, fault: Fault) -> Standing:
        """Sets a fault (`equipoise.testing`: Delay, Lose, Fail, Cut, Unheard), until it is spent or ended."""
        return self.control_by(lambda server: fault)

    def control_by(self, make: Callable[[Server], Fault]) -> Standing:
        """Sets the fault that `make` finds for the state as it is."""
        from equipoise.broker.group_actions import control_of, stand

        def end(standing: Standing) -> None:
            if self._server is not None:
                self.call(lambda server: control_of(server).end(standing))

        return self.call(lambda server: stand(server, make(server), end))

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self._main())
        except Exception as failure:  # noqa: BLE001  it is raised by start(), in the thread that can act on it
            self._failure = failure
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        if self._clock is not None:
            self._clock.attach(self._loop)
        directory = open_directory(self._data, self._config)
        self._security.prepare(self._config)
        await run_server(
            self._config,
            directory,
            self._address,
            ready=self._ready,
            stopping=self._stopping,
            first_acls=self._acls,
            clock=self._clock,
        )

    def _ready(self, server: Server) -> None:
        for name, count in self._wanted_topics.items():
            if server.topics.get(name) is None:
                server.topics.create_at_once(name, count)
        self._server = server
        self._started.set()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
