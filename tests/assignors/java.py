"""Assignments by Kafka's own assignors: the other side of JavaAssignors.java."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.assignors import Cluster, Members
from equipoise.wire.consumer_protocol import Partitions
from proving.brokers import QUICK_JVM, class_data
from proving.fetched import compiled, jars, java

SOURCE = Path(__file__).with_name("JavaAssignors.java")


class JavaAssignors:
    """A JVM that assigns what it is given, until it is closed."""

    def __init__(self) -> None:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        path = f"{jars('kafka')}/*:{compiled(SOURCE)}"
        command = [java(), *QUICK_JVM, *class_data(), quiet, "-cp", path, SOURCE.stem]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def assign(self, assignor: str, cases: Sequence[tuple[Cluster, Members]]) -> list[dict[str, Partitions]]:
        return [self._assign_one(json.dumps(_case(assignor, *case))) for case in cases]

    def _assign_one(self, line: str) -> dict[str, Partitions]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        result = self._process.stdout.readline()
        assert result, "the JVM has ended; its own words are on stderr"
        return {member: _sorted(partitions) for member, partitions in json.loads(result).items()}

    def close(self) -> None:
        """The program ends with its input."""
        self._process.communicate(timeout=120)


def _sorted(partitions: Partitions) -> Partitions:
    return {topic: sorted(numbers) for topic, numbers in partitions.items()}


def _case(assignor: str, cluster: Cluster, members: Members) -> dict[str, Any]:
    return {
        "assignor": assignor,
        "topics": {
            name: {"partitions": topic.partitions, "racks": [sorted(racks) for racks in topic.racks]}
            for name, topic in cluster.items()
        },
        "members": {
            member_id: {
                "topics": member.subscription.topics,
                "user_data": _base64(member.subscription.user_data),
                "owned": member.subscription.owned_partitions,
                "generation": member.subscription.generation_id,
                "rack": member.subscription.rack_id,
                "instance": member.group_instance_id,
            }
            for member_id, member in members.items()
        },
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
