"""kcat: librdkafka on the command line. One process per step and partition."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from tests.interop.drivers.base import PATIENCE_S, Driver, MissingClient
from tests.interop.records import CLIENTS_CLOCK, Headers, Record, by_place

KEY_END, RECORD_END = b"\xf7\x01\xf8", b"\xf7\x02\xf8"  # in no record of ours
_ADMIN = "kcat has no admin requests"


class KcatError(Exception):
    """kcat ended with an error; the message is its own."""


class Kcat(Driver):
    name = "kcat"
    lacks: ClassVar[Mapping[str, str]] = {
        "create": f"{_ADMIN}: the broker creates the topic with num.partitions when kcat asks for its metadata",
        "add partitions": f"{_ADMIN}: confluent-kafka does it",
        "delete": f"{_ADMIN}: confluent-kafka does it",
        "timestamps": "kcat stamps records with its own clock",
        "headers by record": "headers are given by option, for all records of a process, and hold no zero byte",
        "null and empty": "-Z makes nulls of all empty keys and values of a process",
    }

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        path = shutil.which("kcat")
        if path is None:
            raise MissingClient("kcat is not installed: run tools/foreign-clients as root, or install the package kcat")
        self._path = path

    def run(self, *arguments: str | bytes, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            [self._path, "-b", self.bootstrap_servers, *arguments],
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode:
            raise KcatError(done.stderr.decode(errors="replace").strip())
        return done.stdout

    def metadata(self, *arguments: str) -> Any:
        return json.loads(self.run("-L", "-J", *arguments))

    def create_topic(self, topic: str, partitions: int) -> None:
        """By auto-creation: `partitions` must be the broker's num.partitions."""
        (created,) = [len(row["partitions"]) for row in self.metadata("-t", topic)["topics"]]
        assert created == partitions, f"the broker's num.partitions gave {created} partitions, not {partitions}"

    def count_partitions(self, topic: str) -> int | None:
        return next((len(row["partitions"]) for row in self.metadata()["topics"] if row["topic"] == topic), None)

    def produce(self, topic: str, records: Sequence[Record], codec: str, *, idempotent: bool = False) -> None:
        for (partition, headers), run in itertools.groupby(by_place(records), key=lambda r: (r.partition, r.headers)):
            stdin = b"".join((r.key or b"") + KEY_END + (r.value or b"") + RECORD_END for r in run)
            self.run(
                *("-P", "-t", topic, "-p", str(partition), "-z", codec),
                *("-X", "linger.ms=20", "-X", f"enable.idempotence={str(idempotent).lower()}"),
                *("-K", _escape(KEY_END), "-D", _escape(RECORD_END)),
                *(["-Z"] if _sends_nulls(partition) else []),
                *(word for header in headers for word in ("-H", _header(*header))),
                stdin=stdin,
            )

    def consume(self, topic: str, starts: Mapping[int, int]) -> list[Record]:
        with ThreadPoolExecutor(2) as pool:
            found = pool.map(lambda start: self._consume(topic, *start), starts.items())
            return by_place(itertools.chain.from_iterable(found))

    def _consume(self, topic: str, partition: int, offset: int) -> list[Record]:
        out = self.run(
            *("-C", "-e", "-q", "-J", "-X", "fetch.wait.max.ms=10"),
            *("-t", topic, "-p", str(partition), "-o", str(offset)),
        )
        return [_record(line) for line in out.splitlines()]

    def offsets_for_time(self, topic: str, partitions: int, timestamp: int) -> dict[int, int | None]:
        asked = [("-t", f"{topic}:{partition}:{timestamp}") for partition in range(partitions)]
        lines = self.run("-Q", *itertools.chain.from_iterable(asked)).decode().splitlines()
        found = {}
        for line in lines:  # "topic [partition] offset N"
            _, partition, _, offset = line.split()
            found[int(partition.strip("[]"))] = int(offset) if int(offset) >= 0 else None
        return found

    def add_partitions(self, topic: str, total: int) -> None:
        raise KcatError(self.lacks["add partitions"])

    def delete_topic(self, topic: str) -> None:
        raise KcatError(self.lacks["delete"])

    def writable(self, record: Record) -> Record:
        key, value = record.key, record.value
        if _sends_nulls(record.partition):
            key, value = key or None, value or None
        else:
            key, value = key or b"", value or b""
        return record._replace(
            timestamp=CLIENTS_CLOCK, key=key, value=value, headers=_headers_of_partition(record.partition)
        )


def _sends_nulls(partition: int) -> bool:
    return partition % 2 == 1


def _headers_of_partition(partition: int) -> Headers:
    always: Headers = (("partition", str(partition).encode()), ("twice", b"1"), ("other", b""), ("twice", b"2"))
    odd: Headers = (("null", None), ("ключ-λ-鍵-🔑", bytes(range(1, 256))))
    return always + odd if partition % 3 else ()


def _header(name: str, value: bytes | None) -> bytes:
    return name.encode() if value is None else name.encode() + b"=" + value


def _escape(delimiter: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in delimiter)


def _record(line: bytes) -> Record:
    """kcat writes bytes into its JSON as they are; read as Latin-1, each comes back as one character."""
    row = json.loads(line.decode("latin-1"))
    names, values = row.get("headers", [])[::2], row.get("headers", [])[1::2]
    headers = tuple((name.encode("latin-1").decode(), _bytes(value)) for name, value in zip(names, values, strict=True))
    return Record(row["partition"], row["offset"], row["ts"], _bytes(row["key"]), _bytes(row["payload"]), headers)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")
