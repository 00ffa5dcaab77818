"""`python -m bench spark`: our source and sink beside Spark's own Kafka connector, in one session, on one broker."""

from __future__ import annotations

import time
from importlib.metadata import version
from statistics import median
from typing import Any, NamedTuple

from bench.figures import Figure
from bench.machine import Advance, check_machine, progress
from bench.results import Results
from proving.brokers import BrokerProcess, EquipoiseBroker

CODECS = "none", "lz4", "zstd"
SINKS = "noop", "parquet"
CONNECTORS = {"ours": "equipoise", "official": "kafka"}
NOTES = (
    "Spark on two cores (local[2]) with the settings of `equipoise run`, which the official connector has too; our "
    "broker on disk, another process on the same cores. Topics have 4 partitions, keys of 8 bytes, and values of which "
    "16 bytes are random.",
    "Reading: a streaming query over the topic, in batches of so many records. A round is a batch; the first of each "
    "query is not counted, and as many rounds of the same as sizes.warm_rounds says come before, with each connector. "
    "The connectors take turns, sizes.rounds times. "
    "Batch: queries with 4 records a batch, in turn, the median of their batches after the first sizes.tiny_warm. Both "
    "because Java goes on compiling for millions of rows and hundreds of batches, whoever is read from.",
    "From memory: a source in Python whose record batches are ready, without a broker: the most that Spark takes.",
    "Commit: batches of a query with group.id and group.mode=commit against those of one without, in turn.",
    "Writing: a DataFrame of numbers, with acks=all and idempotence on both sides.",
)


# By bytes of a value and sink: how often as fast as the official connector ours should be.
_RATIOS = {(100, "noop"): 2.0, (100, "parquet"): 1.6, (1000, "noop"): 1.3, (1000, "parquet"): 1.2}

_TINY_ROUNDS = 2  # in turn: who comes later finds more compiled


class Size(NamedTuple):
    records: dict[int, int]  # by bytes of a value: how many a topic has
    warm_rounds: int  # of reading before anything counts
    batches: int  # in which a topic is read
    rounds: int  # of reading it, with each connector
    tiny_warm: int  # batches before those that count
    tiny_batches: int
    commit_rounds: int
    written: dict[int, int]
    write_rounds: int


FULL = Size({100: 4_000_000, 1000: 600_000}, 4, 4, 3, 150, 40, 4, {100: 1_000_000, 1000: 200_000}, 3)
QUICK = Size({100: 400_000, 1000: 60_000}, 1, 2, 1, 5, 25, 1, {100: 200_000, 1000: 40_000}, 1)


def figures(size: Size, connectors: dict[str, str]) -> list[Figure]:
    found = []
    for each in size.records:
        for codec in CODECS:
            for sink in SINKS:
                found += _reading(each, codec, sink, connectors)
        found.append(Figure(f"ceiling_{each}_noop", f"{each} B, from memory, to noop", "1/s"))
    found += [Figure(f"{who}_batch", f"a batch of 4 records, {who}", "ms", _aim(who, 60)) for who in connectors]
    if "official" in connectors:
        found.append(Figure("ratio_batch", "a batch of 4 records, official : ours", "times", 1.3))
    found.append(Figure("commit_batch", "a batch of 4 records, ours with group.mode=commit", "ms"))
    found.append(Figure("commit_overhead", "group.mode=commit, on a batch of 100 B records", "%", 2))
    for each in size.written:
        aim = 500_000 if each == 100 else None
        found += [Figure(f"{who}_write_{each}", f"write {each} B, {who}", "1/s", _aim(who, aim)) for who in connectors]
    return found


def _reading(each: int, codec: str, sink: str, connectors: dict[str, str]) -> list[Figure]:
    name = f"{each}_{codec}_{sink}"
    is_aim = name == "100_none_noop"
    least = _RATIOS.get((each, sink))
    title = f"{each} B, {codec}, to {sink}"
    found = [
        Figure(f"{who}_{name}", f"{title}, {who}", "1/s", _aim(who, 2_000_000 if is_aim else None))
        for who in connectors
    ]
    if "official" in connectors:
        found.append(Figure(f"ratio_{name}", f"{title}, ours : official", "times", least))
    return found


def _aim(who: str, aim: float | None) -> float | None:
    return aim if who == "ours" else None


def run_bench(as_json: bool, quick: bool) -> None:
    """Measures for some minutes and prints a table, or one JSON object."""
    check_machine("spark", "pyspark")
    from bench.spark.runs import official_jars, session

    size = QUICK if quick else FULL
    jars, missing = official_jars()
    connectors = {who: name for who, name in CONNECTORS.items() if who == "ours" or not missing}
    skipped = [one.key for one in figures(size, CONNECTORS) if one not in figures(size, connectors)]
    notes = (*NOTES, *([f"skipped: the official connector ({missing})"] if missing else []))
    facts = {"sizes": size._asdict(), "pyspark": version("pyspark"), "skipped": skipped}
    results = Results("spark", figures(size, connectors), notes, **facts)
    began = time.perf_counter()
    steps = len(size.records) * len(CODECS) + 4
    with EquipoiseBroker() as broker, session(jars) as spark, progress(steps) as advance:
        bench = _Bench(spark, broker, connectors, size, results)
        bench.run(advance)
    results.print(as_json, time.perf_counter() - began)


class _Bench:
    def __init__(
        self, spark: Any, broker: BrokerProcess, connectors: dict[str, str], size: Size, results: Results
    ) -> None:
        self._spark = spark
        self._broker = broker
        self._connectors = connectors
        self._size = size
        self._results = results

    def run(self, advance: Advance) -> None:
        self._warm_up()
        advance()
        for each, count in self._size.records.items():
            for codec in CODECS:
                self._read(each, count, codec)
                advance()
            self._ceiling(each, count)
        self._tiny_batches()
        advance()
        self._commits()
        advance()
        self._write()
        advance()

    def _stream(self, connector: str, topic: str, at_once: int) -> Any:
        from bench.spark.runs import Stream

        return Stream(self._spark, self._broker, connector, topic, at_once)

    def _warm_up(self) -> None:
        """The JVM compiles what runs often: whoever came first would pay for it."""
        from bench.spark.runs import fill

        count = self._size.records[100] // 2
        fill(self._broker, "warm", 100, count, "none")
        for sink in SINKS * self._size.warm_rounds:
            for connector in self._connectors.values():
                self._stream(connector, "warm", count // 2).run(sink)

    def _read(self, each: int, count: int, codec: str) -> None:
        from bench.spark.runs import fill

        topic = _topic(each, codec)
        fill(self._broker, topic, each, count, codec)
        for sink in SINKS:
            name = f"{each}_{codec}_{sink}"
            for number in range(self._size.rounds):
                for who in list(self._connectors)[:: -1 if number % 2 else 1]:  # who comes first finds a cold cache
                    batches = self._stream(self._connectors[who], topic, count // self._size.batches).run(sink)
                    self._results.add(f"{who}_{name}", *(rows / seconds for rows, seconds in batches[1:]))
            if "official" in self._connectors:
                ours, official = (median(self._results.values(f"{who}_{name}")) for who in ("ours", "official"))
                self._results.add(f"ratio_{name}", ours / official)

    def _ceiling(self, each: int, count: int) -> None:
        from bench.spark.ceiling import Ceiling

        self._spark.dataSource.register(Ceiling)
        stream = self._stream(Ceiling.name(), "none", count // self._size.batches)
        batches = stream.run(size=str(each), records=str(count))
        self._results.add(f"ceiling_{each}_noop", *(rows / seconds for rows, seconds in batches[1:]))

    def _tiny_batches(self) -> None:
        from bench.spark.runs import PARTITIONS, fill

        fill(self._broker, "tiny", 100, PARTITIONS * (self._size.tiny_batches + self._size.tiny_warm), "none")
        for _ in range(_TINY_ROUNDS):
            for who, connector in self._connectors.items():
                self._add_tiny(f"{who}_batch", self._stream(connector, "tiny", PARTITIONS).run())
        if "official" in self._connectors:
            ours, official = (median(self._results.values(f"{who}_batch")) for who in ("ours", "official"))
            self._results.add("ratio_batch", official / ours)
        self._add_tiny("commit_batch", self._stream("equipoise", "tiny", PARTITIONS).run(**_group("tiny")))

    def _add_tiny(self, key: str, batches: list[tuple[int, float]]) -> None:
        self._results.add(key, median(seconds * 1000 for _, seconds in batches[self._size.tiny_warm :]))

    def _commits(self) -> None:
        """Medians of many batches in turn: the difference is smaller than what two batches differ by chance."""
        count = self._size.records[100]
        stream = self._stream("equipoise", _topic(100, "none"), count // (2 * self._size.batches))
        took: dict[bool, list[float]] = {False: [], True: []}
        for number in range(self._size.commit_rounds):
            for commits in (False, True):
                batches = stream.run(**(_group(f"commits-{number}") if commits else {}))
                took[commits] += [seconds for _, seconds in batches[1:]]
        self._results.add("commit_overhead", (median(took[True]) / median(took[False]) - 1) * 100)

    def _write(self) -> None:
        from bench.spark.runs import PARTITIONS, save
        from equipoise.client import Admin

        for each, count in self._size.written.items():
            for who, connector in self._connectors.items():
                topic = f"written-{each}-{who}"
                with Admin(self._broker.bootstrap_servers) as admin:
                    admin.create_topic(topic, PARTITIONS)
                save(self._spark, self._broker, connector, topic, each, count // 10)
                for _ in range(self._size.write_rounds):
                    seconds = save(self._spark, self._broker, connector, topic, each, count)
                    self._results.add(f"{who}_write_{each}", count / seconds)


def _topic(each: int, codec: str) -> str:
    return f"values-of-{each}-{codec}"


def _group(name: str) -> dict[str, str]:
    return {"group.id": name, "group.mode": "commit"}
