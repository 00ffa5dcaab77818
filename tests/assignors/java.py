"""Assignments by Kafka's own assignors, of JavaAssignors.java: one JVM for all the cases it is given."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.assignors import Cluster, Members
from equipoise.proving.fetched import jars, java
from equipoise.wire.consumer_protocol import Partitions

SOURCE = Path(__file__).with_name("JavaAssignors.java")


def java_assign(assignor: str, cases: Sequence[tuple[Cluster, Members]]) -> list[dict[str, Partitions]]:
    lines = "\n".join(json.dumps(_case(assignor, *case)) for case in cases)
    command = [java(), "-cp", f"{jars('kafka')}/*", "-Xmx512m", str(SOURCE)]
    ended = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    results = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(results) == len(cases)
    return [{member: _sorted(partitions) for member, partitions in result.items()} for result in results]


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
