"""Random ways through the coordinator: clients of both transaction versions, zombies, failing writes, crashes.

After every step: markers say what the decision in the log says; with transaction version 2 an epoch has one outcome,
whoever asks and how often (I5); what is written is what memory has (I9). When all has come to rest, every decision has
reached every partition: a transaction is committed whole or aborted whole (I4).
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from equipoise.coordinator.transactions.requests import AddPartitions, EndTxn, InitProducerId
from equipoise.coordinator.transactions.states import PREPARED, State
from equipoise.coordinator.transactions.step import Markers
from equipoise.wire.errors import ErrorCode
from tests.effort import examples
from tests.transactions.world import ID, T0, T1, TV2, World

PARTITIONS = [T0, T1, ("u", 0)]
FAILURES = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR]


class Producer:
    """What a client believes, which may be of the past."""

    def __init__(self, producer_id: int, epoch: int, version: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.version = version
        self.is_open = False

    @property
    def names(self) -> tuple[int, int]:
        return self.producer_id, self.epoch


class Transactions(RuleBasedStateMachine):
    """One id, many producers that each believe to be the one."""

    def __init__(self) -> None:
        super().__init__()
        self.producers: list[Producer] = []
        self.asked: dict[int, tuple[str, Producer | None, object]] = {}
        self.heard: dict[tuple[int, int], bool] = {}  # by producer and epoch: whether its transaction was committed
        self.marked: dict[int, dict[tuple[str, int], bool]] = {}  # by the number of the decision in the log

    @initialize(version=st.sampled_from([1, TV2]), park_ms=st.sampled_from([0, 100]))
    def start(self, version: int, park_ms: int) -> None:
        self.version = version
        self.world = World(flows=False, transaction_version=version, transaction_park_ms=park_ms)

    # -- clients

    @rule(version=st.sampled_from([0, TV2]), flows=st.booleans())
    def new_producer(self, version: int, flows: bool) -> None:
        token = self.world.ask(InitProducerId(ID, 60_000))
        self.asked[token] = "init", None, version
        if flows:
            self.rest()

    @rule(count=st.integers(1, 3), commit=st.booleans())
    def transacts(self, count: int, commit: bool) -> None:
        """The newest producer, with a disk that works: what most clients do."""
        self.rest()
        if self.producers:
            one = self.producers[-1]
            partitions = frozenset(PARTITIONS[:count])
            self.asked[self.world.ask(AddPartitions(ID, *one.names, partitions, one.version))] = "add", one, partitions
            self.rest()
            self.asked[self.world.ask(EndTxn(ID, *one.names, commit, one.version))] = "end", one, commit

    @rule()
    def all_is_carried_out(self) -> None:
        self.rest()

    @rule(data=st.data())
    def goes_on(self, data: st.DataObject) -> None:
        if self.producers:
            one = data.draw(st.sampled_from(self.producers))
            token = self.world.ask(InitProducerId(ID, 60_000, *one.names))
            self.asked[token] = "init", None, one.version

    @rule(data=st.data(), partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1), is_beside=st.booleans())
    def adds(self, data: st.DataObject, partitions: set[tuple[str, int]], is_beside: bool) -> None:
        if self.producers:
            one = data.draw(st.sampled_from(self.producers))
            request = AddPartitions(ID, *one.names, frozenset(partitions), one.version, is_beside)
            self.asked[self.world.ask(request)] = "add", one, frozenset(partitions)

    @rule(data=st.data(), commit=st.booleans())
    def ends(self, data: st.DataObject, commit: bool) -> None:
        if self.producers:
            one = data.draw(st.sampled_from(self.producers))
            token = self.world.ask(EndTxn(ID, *one.names, commit, one.version))
            self.asked[token] = "end", one, commit

    # -- the disk, time, crashes

    @rule()
    def a_write_is_durable(self) -> None:
        if self.world.writes:
            self.world.write_next()
            self.hear()

    @rule(error=st.sampled_from(FAILURES))
    def a_write_fails(self, error: ErrorCode) -> None:
        if self.world.writes:
            self.world.write_next(error)
            self.hear()

    @rule(data=st.data())
    def a_marker_is_durable(self, data: st.DataObject) -> None:
        if self.world.markers:
            sent = self.world.markers[0]
            one = data.draw(st.sampled_from(sorted(sent.partitions)))
            self.mark(sent, one)
            rest = sent._replace(partitions=sent.partitions - {one})
            self.world.markers[0:1] = [rest] if rest.partitions else []
            self.world.run(self.world.shard.markers_written(ID, [one], self.world.now))
            self.hear()

    def mark(self, sent: Markers, partition: tuple[str, int]) -> None:
        """Every marker of a transaction says what the log says, also if it comes again after a crash."""
        decisions = [record for record in self.world.records() if record.transaction_status in (2, 3)]
        decision = decisions[-1]
        assert (sent.producer_id, sent.producer_epoch) == (decision.producer_id, decision.producer_epoch)
        assert sent.commit is (decision.transaction_status == 2), "committed and aborted"
        self.marked.setdefault(len(decisions), {})[partition] = sent.commit

    @rule(ms=st.sampled_from([1, 50, 30_000, 61_000]))
    def time_passes(self, ms: int) -> None:
        self.world.advance(ms)
        self.hear()

    @rule()
    def crash(self) -> None:
        self.world.restart()
        self.asked.clear()

    # -- what clients hear

    def hear(self) -> None:
        for token in [token for token in self.asked if token in self.world.answers]:
            what, one, detail = self.asked.pop(token)
            answer = self.world.answers[token]
            if answer.error_code is not ErrorCode.NONE:
                continue
            if what == "init":
                assert isinstance(detail, int)
                self.producers.append(Producer(answer.producer_id, answer.producer_epoch, detail))
                del self.producers[:-4]
            elif what == "end" and one is not None:
                self.told(one, bool(detail))
                if one.version == TV2:
                    one.producer_id, one.epoch = answer.producer_id, answer.producer_epoch

    def told(self, one: Producer, commit: bool) -> None:
        """Rule I5: with transaction version 2 an epoch has one outcome, whoever asks and how often."""
        if one.version == TV2:
            assert self.heard.setdefault(one.names, commit) is commit, "one epoch, two outcomes"

    # -- what always holds

    @invariant()
    def memory_is_what_is_written(self) -> None:
        """Rule I9: but for the epoch before, and what is not durable."""
        if not hasattr(self, "world"):
            return
        self.hear()
        loaded = World(flows=False)
        loaded.log = list(self.world.log)
        loaded.restart()
        for name, entry in self.world.shard.entries.items():
            if entry.fields.producer_epoch == -1:
                continue  # made in memory, its first record is on its way
            there = loaded.shard.entries[name].fields
            here = entry.fields._replace(last_producer_epoch=-1)
            if entry.state in PREPARED:
                here = here._replace(partitions=there.partitions)
            elif entry.pending is State.PREPARE_ABORT or entry.has_failed_epoch_fence:
                here = here._replace(producer_epoch=there.producer_epoch)
            assert here == there

    def teardown(self) -> None:
        """Clients are gone, the disk works: what is open times out, and every transaction is whole."""
        if not hasattr(self, "world"):
            return
        world = self.world
        if any(write.outcome is None for write in world.writes):
            raise AssertionError("a write without outcome")
        self.rest()
        world.advance(120_000)
        self.rest()
        for entry in world.shard.entries.values():
            assert entry.pending is None
            assert entry.state in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
        decisions = [record for record in world.records() if record.transaction_status in (2, 3)]
        for number, decision in enumerate(decisions, 1):
            rows = decision.transaction_partitions or []
            wanted = {
                (row.topic, index): decision.transaction_status == 2 for row in rows for index in row.partition_ids
            }
            assert self.marked.get(number, {}) == wanted, "not whole"

    def rest(self) -> None:
        while self.world.writes or self.world.markers:
            if self.world.writes:
                self.a_write_is_durable()
            else:
                sent = self.world.markers.pop(0)
                for one in sent.partitions:
                    self.mark(sent, one)
                self.world.run(self.world.shard.markers_written(ID, sent.partitions, self.world.now))
        self.hear()


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None, database=None, derandomize=True
)
