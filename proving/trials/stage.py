"""What all trials share: a topic, a writer, readers of any kind, and the faults that they have to live through."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from equipoise.wire.errors import EquipoiseError
from proving.cluster import BROKER_IDS, Cluster
from proving.kafka_cluster import KafkaCluster
from proving.trials.accounts import Account, Read, Spot, longest_stall, places, settle
from proving.trials.writing import Writer, read_log

PARTITIONS = 6
_PATIENCE_S = 600.0  # on a busy machine; on a quiet one nobody needs a minute
_LOOK_AGAIN_S = 0.1  # a look at what Spark has written costs milliseconds


class Reader(ABC):
    """A reader of a trial's topic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._reached: dict[int, int] = {}  # by partition, the highest offset among the reads counted so far
        self._counted = 0

    @abstractmethod
    def reads(self) -> list[Read]:
        """All so far. Later ones are added behind them."""

    def check(self) -> None:  # noqa: B027  not everybody can fail
        """Raises if it has failed."""

    def end(self) -> None:  # noqa: B027  nor has everybody to be told
        """It has read all, and reads no more."""

    def has_passed(self, ends: dict[int, int]) -> bool:
        """Whether it has read these offsets, by partition, or later ones.

        Each read is looked at once: a trial asks many times a second, on the cores that its clusters need."""
        reads = self.reads()
        for one in reads[self._counted :]:
            self._reached[one.partition] = max(self._reached.get(one.partition, -1), one.offset)
        self._counted = len(reads)
        return all(self._reached.get(partition, -1) >= offset for partition, offset in ends.items())


Tell = Callable[[str], None]


def silently(_: str) -> None:
    """For those who do not want to know."""


def until(what: str, is_so: Callable[[], bool], patience_s: float = _PATIENCE_S) -> None:
    end = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() > end:
            raise EquipoiseError(f"not so within {patience_s:.0f} s: {what}")
        time.sleep(_LOOK_AGAIN_S)


class Stage:
    """A trial: `writer` writes, `readers` read, and each fault is over when the readers have got over it."""

    def __init__(self, cluster: Cluster, writer: Writer, readers: Iterable[Reader], tell: Tell) -> None:
        self.cluster, self.writer, self.readers = cluster, writer, list(readers)
        self.topic = writer.topic
        self.happenings: list[str] = []
        self._tell = tell
        self._began = time.monotonic()

    def note(self, what: str) -> None:
        self.happenings.append(f"{time.monotonic() - self._began:.1f} s: {what}")
        self._tell(self.happenings[-1])

    def check(self) -> None:
        """Raises if a reader has failed."""
        for reader in self.readers:
            reader.check()

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        def is_so_while_all_live() -> bool:
            self.check()
            return is_so()

        until(f"{what}; so far {self.happenings}", is_so_while_all_live)

    def until_all_go_on(self, readers: Iterable[Reader] | None = None) -> dict[int, int]:
        """From this moment on, every partition was written, and read by each of them; up to there at least.

        With leaders that live: what a broker has answered before it died or hung may come yet.
        """
        for partition in range(self.writer.partitions):
            self.cluster.leader_of(self.topic, partition)
        now = time.monotonic()
        self.until("all partitions are written to", lambda: len(self.writer.since(now)) == self.writer.partitions)
        goal = self.writer.since(now)
        for reader in self.readers if readers is None else readers:
            self.until(f"{reader.name} reads on", lambda reader=reader: reader.has_passed(goal))  # type: ignore[misc]
        return goal

    # -- faults of brokers

    def kill(self, node_id: int, why: str = "") -> None:
        """SIGKILL; when all have gone on without it, it comes back."""
        self.note(f"broker {node_id} is killed{why}")
        self.cluster.kill(node_id)
        self.until_all_go_on()
        self.cluster.start(node_id)
        self.cluster.wait_in_sync(self.topic)

    def kill_leader(self) -> None:
        self.kill(self.cluster.leader_of(self.topic), ", a leader")

    def kill_coordinator(self, group: str) -> None:
        self.kill(self.cluster.coordinator_of(group), ", the coordinator of the groups")

    def stop_leader(self) -> None:
        node_id = self.cluster.leader_of(self.topic)
        self.note(f"broker {node_id} is stopped, and started again")
        self.cluster.stop(node_id)
        self.until_all_go_on()
        self.cluster.start(node_id)
        self.cluster.wait_in_sync(self.topic)

    def hang(self, node_id: int, wait: Callable[[], object]) -> None:
        """Until it has been waited for what has to go on without it."""
        assert isinstance(self.cluster, KafkaCluster), "only a process of its own can hang"
        self.note(f"broker {node_id} hangs")
        self.cluster.hang(node_id)
        wait()
        self.cluster.resume(node_id)
        self.note(f"broker {node_id} goes on")
        self.cluster.wait_in_sync(self.topic)

    # -- leaders and replicas that move

    def move(self) -> None:
        """Every partition to other brokers and back to three replicas; then the preferred ones lead."""
        for turn, size in ((1, 2), (2, 3)):
            plan = {one: _circle(one + turn)[:size] for one in range(self.writer.partitions)}
            self.note(f"partitions move to other brokers, with {size} replicas each")
            self.cluster.reassign(self.topic, plan)
            self.cluster.wait_in_sync(self.topic)
            self.elect()
            self.until_all_go_on()

    def elect(self) -> None:
        self.cluster.elect(self.topic, *range(self.writer.partitions))
        self.note("the preferred replicas lead")

    # -- the end

    def finish(self) -> list[Account]:
        """Nothing more is written; what was is read to the end by all, and counted. The writer's row is the first."""
        self.writer.finish()
        self.cluster.mend()
        log = read_log(self.cluster.bootstrap_servers, self.topic, self.writer.partitions)
        ends = ends_of(log)
        for reader in self.readers:
            self.until(f"{reader.name} has read all", lambda reader=reader: reader.has_passed(ends))  # type: ignore[misc]
        self.end_readers()
        acknowledged = self.writer.acknowledged
        stored = settle("(in the log)", acknowledged, Counter(log.values()), longest_stall(acknowledged.values()))
        return [stored, *(_account(reader, acknowledged.keys(), log) for reader in self.readers)]

    def end_readers(self) -> None:
        """They have read all, and could only read something again."""
        for reader in self.readers:
            reader.end()


def _circle(first: int) -> list[int]:
    """All brokers, from another one on."""
    first %= len(BROKER_IDS)
    return [*BROKER_IDS[first:], *BROKER_IDS[:first]]


def ends_of(log: Iterable[Spot]) -> dict[int, int]:
    """By partition, the last offset."""
    ends: dict[int, int] = {}
    for partition, offset in log:
        ends[partition] = max(ends.get(partition, -1), offset)
    return ends


def _account(reader: Reader, acknowledged: Collection[int], log: dict[Spot, int]) -> Account:
    """By places. The log must have what was read."""
    reads = reader.reads()
    read = Counter((one.partition, one.offset) for one in reads)
    strange = read.keys() - log.keys()
    if strange:
        raise EquipoiseError(f"{reader.name} has read what is not in the log: {sorted(strange)[:5]}")
    return settle(reader.name, places(acknowledged, log), read, longest_stall(reads))
