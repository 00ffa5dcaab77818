"""KafkaJS, in a process of Node.js that takes and gives a line of JSON per step."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from proving.fetched import Unavailable
from proving.members.foreign import node, node_modules
from tests.interop.drivers.base import PATIENCE_S, Driver, MissingClient
from tests.interop.records import Record, by_place, group_headers, without_null_headers

HERE = Path(__file__).parents[1] / "kafkajs"


class KafkaJsError(Exception):
    """An error of KafkaJS: `kind` is its protocol name (UNKNOWN_TOPIC_OR_PARTITION), if it has one."""

    def __init__(self, name: str, kind: str | None, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.kind = kind


class KafkaJs(Driver):
    name = "kafkajs"
    lacks: ClassVar[Mapping[str, str]] = {
        "assignment": "its consumer reads in a group only: the driver uses the Fetch of its cluster object",
        "null header": "its producer measures a header's value before it looks whether there is one",
        "header order": "headers are a map of names to values: equal names come together",
    }

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        try:
            command, packages = [node(), str(HERE / "driver.js"), bootstrap_servers], str(node_modules())
        except Unavailable as missing:
            raise MissingClient(str(missing)) from None
        environment = {**os.environ, "NODE_PATH": packages}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def call(self, step: str, *arguments: object) -> Any:
        """Runs a step of driver.js, or `admin.METHOD` of KafkaJS itself."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(PATIENCE_S, process.kill)
        watchdog.start()
        try:
            process.stdin.write(json.dumps([step, *arguments]).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        finally:
            watchdog.cancel()
        assert line, f"kafkajs ended in {step}, or had not done within {PATIENCE_S:.0f} s"
        answer = json.loads(line)
        if "error" in answer:
            raise KafkaJsError(answer["name"], answer.get("type"), answer["error"])
        return answer["result"]

    def create_topic(self, topic: str, partitions: int) -> None:
        created = self.call("admin.createTopics", {"topics": [{"topic": topic, "numPartitions": partitions}]})
        assert created, f"topic {topic} was there before"

    def count_partitions(self, topic: str) -> int | None:
        topics = self.call("admin.fetchTopicMetadata", {})["topics"]
        return next((len(row["partitions"]) for row in topics if row["name"] == topic), None)

    def produce(self, topic: str, records: Sequence[Record], codec: str, *, idempotent: bool = False) -> None:
        self.call("produce", topic, codec, [_to_json(record) for record in records], idempotent)

    def consume(self, topic: str, starts: Mapping[int, int]) -> list[Record]:
        rows = self.call("consume", topic, list(starts.items()))
        return by_place(map(_from_json, rows))

    def offsets_for_time(self, topic: str, partitions: int, timestamp: int) -> dict[int, int | None]:
        """KafkaJS gives the end of the log for nothing found, where no record can be."""
        ends = {row["partition"]: row["high"] for row in self.call("admin.fetchTopicOffsets", topic)}
        found = self.call("admin.fetchTopicOffsetsByTimestamp", topic, timestamp)
        return {
            row["partition"]: None if row["offset"] == ends[row["partition"]] else int(row["offset"]) for row in found
        }

    def add_partitions(self, topic: str, total: int) -> None:
        self.call("admin.createPartitions", {"topicPartitions": [{"topic": topic, "count": total}]})

    def delete_topic(self, topic: str) -> None:
        self.call("admin.deleteTopics", {"topics": [topic]})

    def writable(self, record: Record) -> Record:
        return self.readable(without_null_headers(record))

    def readable(self, record: Record) -> Record:
        return record._replace(headers=group_headers(record.headers))

    def close(self) -> None:
        """The process ends when its input does."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def _to_json(record: Record) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "timestamp": str(record.timestamp),
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }


def _from_json(row: dict[str, Any]) -> Record:
    headers = tuple((name, _bytes(value)) for name, value in row["headers"])
    return Record(
        row["partition"], int(row["offset"]), int(row["timestamp"]), _bytes(row["key"]), _bytes(row["value"]), headers
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
