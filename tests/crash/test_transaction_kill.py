"""The broker is killed by SIGKILL in the middle of transactions: each is there whole, with its offset, or not at all.

The moments come from a seed, which is printed; EQUIPOISE_SEED=N repeats it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import iter_headers
from tests.broker.calls import BY_NAME, create_topic, fetch_request, fetched, stored
from tests.broker.conftest import eventually
from tests.broker.rawclient import RawClient
from tests.broker.txn_calls import READ_COMMITTED, RawProducer, committed
from tests.crash.warm import WarmBroker
from tests.log.txn_helpers import not_aborted

PRODUCERS = 3
PARTITIONS = 2
LONGEST_LIFE = 0.15
SETTINGS = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WarmBroker]:
    with WarmBroker(tmp_path / "data", tmp_path / "log", SETTINGS) as served:
        yield served
        assert "Traceback" not in served.log.read_text()


class Transactor:
    """One transactional id. Transaction n writes n to every partition, and commits the offset n in its own group."""

    def __init__(self, address: str, number: int, moments: random.Random) -> None:
        self.name = f"p{number}"
        self.bumps = number % 2 == 0  # both transaction versions
        self.next = self._first = 1
        self.sure: dict[int, bool] = {}  # by transaction, whether it was committed
        self._address = address
        self._random = random.Random(moments.random())
        self._stopped = Event()
        self._thread: Thread | None = None

    @property
    def has_begun(self) -> bool:
        """Whether it has begun a transaction since the last start of the broker."""
        return self.next > self._first

    def start(self) -> None:
        self._stopped.clear()
        self._first = self.next
        self._thread = Thread(target=self._run)
        self._thread.start()

    def join(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with RawClient(self._address) as client:
                producer = RawProducer(client, self.name, bumps=self.bumps)
                while not self._stopped.is_set():
                    self._transact(producer)
        except (OSError, EOFError):
            pass  # the broker was killed: whatever has no answer is in doubt

    def _transact(self, producer: RawProducer) -> None:
        number, commit = self.next, self._random.random() < 0.7
        self.next += 1
        value = f"{self.name} {number}".encode()
        for partition in range(PARTITIONS):
            producer.write(value, partition=partition)
        if not self.bumps:
            assert producer.add_offsets(self.name) == ErrorCode.NONE
        assert producer.commit_offset(self.name, number, version=5 if self.bumps else 4) == ErrorCode.NONE
        producer.end(commit=commit)
        self.sure[number] = commit


class Reader:
    """A reader of committed records. It goes on where it was when the broker was killed."""

    def __init__(self) -> None:
        self.values: list[list[str]] = [[] for _ in range(PARTITIONS)]
        self._offsets = [0] * PARTITIONS

    def read(self, client: RawClient) -> None:
        """All there is, once every transaction is over."""
        for partition in range(PARTITIONS):
            while self._read(client, partition):
                pass

    def _read(self, client: RawClient, partition: int) -> bool:
        offset = self._offsets[partition]
        request = fetch_request({("t", partition): offset}, isolation_level=READ_COMMITTED)
        data = fetched(client.call(request, BY_NAME))
        batches = stored(data)
        if not batches:
            assert offset == data.high_watermark
            return False
        listed = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
        found = not_aborted(batches, listed)
        self.values[partition] += [(one.value or b"").decode() for one in found if one.offset >= offset]
        self._offsets[partition] = next_offset(batches)
        return True


def next_offset(batches: bytes) -> int:
    return [header.last_offset + 1 for _, header in iter_headers(batches)][-1]


def is_settled(client: RawClient) -> bool:
    """Nobody holds a transaction open."""
    ends = [fetched(client.call(fetch_request({("t", one): 0}), BY_NAME)) for one in range(PARTITIONS)]
    return all(data.last_stable_offset == data.high_watermark for data in ends)


def check(address: str, transactors: list[Transactor], reader: Reader) -> None:
    with RawClient(address) as client:
        for one in transactors:
            RawProducer(client, one.name, bumps=one.bumps)  # aborts what is open
        eventually(lambda: is_settled(client), "all transactions are over")
        reader.read(client)
        for one in transactors:
            check_transactor(client, one, reader.values)


def check_transactor(client: RawClient, one: Transactor, partitions: list[list[str]]) -> None:
    seen = [[int(n) for name, n in map(str.split, values) if name == one.name] for values in partitions]
    assert all(numbers == seen[0] for numbers in seen), f"{one.name}: part of a transaction is missing"
    assert seen[0] == sorted(set(seen[0]))
    assert {n for n, commit in one.sure.items() if commit} <= set(seen[0])
    assert not {n for n, commit in one.sure.items() if not commit} & set(seen[0])
    eventually(lambda: committed(client, one.name)[0] == ErrorCode.NONE, "the offsets are settled")
    offset = committed(client, one.name)[1]
    assert offset == (seen[0][-1] if seen[0] else -1), f"{one.name}: records and offset disagree"


def hunt(broker: WarmBroker, moments: random.Random, rounds: int) -> None:
    transactors = [Transactor(broker.address, number, moments) for number in range(PRODUCERS)]
    reader = Reader()
    with RawClient(broker.address) as client:
        create_topic(client, "t", PARTITIONS, {"internal.segment.bytes": "5000"})
    for _ in range(rounds):
        for one in transactors:
            one.start()
        eventually(lambda: all(one.has_begun for one in transactors), "all transact")
        time.sleep(moments.uniform(0, LONGEST_LIFE))
        broker.kill()
        for one in transactors:
            one.join()
        broker.start()
        check(broker.address, transactors, reader)
    check(broker.address, transactors, Reader())  # who comes later reads the same
    assert all(any(one.sure.values()) for one in transactors)
    print(f"{sum(map(len, reader.values))} records of {sum(one.next - 1 for one in transactors)} transactions")


def test_kills_leave_whole_transactions(broker: WarmBroker, moments: random.Random) -> None:
    hunt(broker, moments, rounds=25)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_five_hundred_kills_leave_whole_transactions(broker: WarmBroker, moments: random.Random) -> None:
    hunt(broker, moments, rounds=500)
