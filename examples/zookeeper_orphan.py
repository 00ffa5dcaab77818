"""Two members, two strategies, one group: a partition that nobody reads, and nobody has an error. Then in safe mode.

python examples/zookeeper_orphan.py        needs Java, and equipoise[zookeeper,spark,demo]
"""

from __future__ import annotations

import threading
import time

from confluent_kafka import Producer

from equipoise.client import Admin
from equipoise.testing import Broker
from equipoise.testing.registering import register
from equipoise.zookeeper import (
    BrokerRegistration,
    InconsistentStrategyError,
    ZooKeeperConsumer,
    ZooKeeperServer,
)

TOPICS = {"orders": 1, "payments": 1}  # one partition each, and one stream of each for every member


def join(hosts: str, mode: str, name: str, strategy: str, read: list[str]) -> ZooKeeperConsumer:
    consumer = ZooKeeperConsumer(
        zookeeper_connect=hosts,
        group_id=mode,
        mode=mode,
        consumer_id=name,
        partition_assignment_strategy=strategy,
        auto_offset_reset="smallest",
        rebalance_backoff_ms=200,
        rebalance_max_retries=50,
    )
    try:
        streams = consumer.create_message_streams(TOPICS)
    except BaseException:
        consumer.close()
        raise
    for (stream,) in streams.values():
        threading.Thread(target=lambda one=stream: read.extend(record.topic for record in one), daemon=True).start()
    return consumer


def produce(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for topic in TOPICS:
        for number in range(100):
            producer.produce(topic, str(number).encode())
    producer.flush()


def faithful(hosts: str, servers: str) -> None:
    read: list[str] = []
    first = join(hosts, "faithful", "c0", "roundrobin", read)
    second = join(hosts, "faithful", "c1", "range", read)
    while len(first.owned()) != 1:  # it gives the other partition up for c1, which does not want it
        time.sleep(0.05)
    produce(servers)
    while len(read) < 100:
        time.sleep(0.05)
    time.sleep(2)  # time enough for more
    print(f"as it was: c0 owns {names(first)}, c1 owns {names(second)}; neither has an error")
    print("as it was: " + ", ".join(f"{read.count(topic)} of 100 records of {topic} were read" for topic in TOPICS))
    first.close()
    second.close()


def safe(hosts: str) -> None:
    read: list[str] = []
    first = join(hosts, "safe", "c0", "roundrobin", read)
    try:
        join(hosts, "safe", "c1", "range", read)
    except InconsistentStrategyError as error:
        print(f"safe: c1 is refused: {error}")
    while len(read) < 200:
        time.sleep(0.05)
    print(f"safe: c0 owns {names(first)}; of both topics all 100 records were read")
    first.close()


def names(consumer: ZooKeeperConsumer) -> str:
    return ", ".join(sorted(map(str, consumer.owned()))) or "nothing"


def main() -> None:
    with ZooKeeperServer() as zookeeper, Broker() as broker, BrokerRegistration(zookeeper.connect) as registration:
        broker.call(lambda server: register(server, registration))
        with Admin(broker.bootstrap_servers) as admin:
            for topic, partitions in TOPICS.items():
                admin.create_topic(topic, partitions)
        faithful(zookeeper.connect, broker.bootstrap_servers)
        safe(zookeeper.connect)


if __name__ == "__main__":
    main()
