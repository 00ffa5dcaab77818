"""Offsets kept beside the results, in one SQLite transaction: each record counts exactly once, whatever crashes.

    python examples/offsets_in_sqlite.py HOST:PORT TOPIC GROUP totals.db

The group shares out the partitions; the database says where reading goes on. Saved in on_revoked and after every
batch, sought in on_assigned.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Set as AbstractSet

from equipoise.client import Consumer, ConsumerRecord, RebalanceListener, TopicPartition

SCHEMA = """
create table if not exists totals (key text primary key, count integer not null);
create table if not exists positions (
    topic text, partition integer, next_offset integer not null, primary key (topic, partition)
);
"""


class Totals(RebalanceListener):
    """How often each key was seen."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path, timeout=30)
        self.database.executescript(SCHEMA)

    def on_assigned(self, consumer: Consumer, added: AbstractSet[TopicPartition]) -> None:
        for partition in added:
            saved = self.database.execute(
                "select next_offset from positions where topic = ? and partition = ?", partition
            ).fetchone()
            if saved is not None:
                consumer.seek(partition, saved[0])

    def on_revoked(self, consumer: Consumer, removed: AbstractSet[TopicPartition]) -> None:
        """Nothing is open here, since every batch is one transaction: the next owner finds all there is."""

    def add(self, records: list[ConsumerRecord]) -> None:
        """Counts and positions, both or neither."""
        with self.database:
            for record in records:
                key = (record.key or b"").decode()
                self.database.execute(
                    "insert into totals values (?, 1) on conflict (key) do update set count = count + 1", (key,)
                )
                self.database.execute(
                    "insert into positions values (?, ?, ?) "
                    "on conflict (topic, partition) do update set next_offset = excluded.next_offset",
                    (record.topic, record.partition, record.offset + 1),
                )


def main(bootstrap_servers: str, topic: str, group: str, path: str) -> None:
    totals = Totals(path)
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    with Consumer(settings, enable_auto_commit=False) as consumer:
        consumer.subscribe(topic, totals)
        while True:
            totals.add(consumer.poll())


if __name__ == "__main__":
    main(*sys.argv[1:])
