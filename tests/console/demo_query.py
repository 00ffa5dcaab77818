"""In place of a pipeline on Spark: a member that writes Parquet and lists it as Spark does, ready in half a second.

python demo_query.py NAME DIRECTORY HOST:PORT
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from equipoise.client import Consumer
from equipoise.console.demo.members import GROUP, SESSION_MS
from equipoise.console.demo.orders import TOPIC


def main(name: str, directory: str, bootstrap_servers: str) -> None:
    output = Path(directory, name, "member=0")
    (output / "_spark_metadata").mkdir(parents=True)
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": GROUP,
        "client.id": name,
        "session.timeout.ms": SESSION_MS,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "partition.assignment.strategy": "cooperative-sticky",
    }
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Consumer(settings) as consumer:
        consumer.subscribe(TOPIC)
        batch = 0
        while True:
            orders = [json.loads(record.value or b"")["order"] for record in consumer.poll(0.2)]
            if orders:
                write(output, batch, orders)
                consumer.commit()
                batch += 1


def write(output: Path, batch: int, orders: list[int]) -> None:
    file = output / f"part-{batch}.parquet"
    pq.write_table(pa.table({"order": orders}), file)
    listed = output / "_spark_metadata" / f".{batch}"
    listed.write_text("v1\n" + json.dumps({"path": file.as_uri(), "action": "add"}))
    listed.rename(output / "_spark_metadata" / str(batch))


if __name__ == "__main__":
    main(*sys.argv[1:])
