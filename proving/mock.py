"""librdkafka's mock cluster as a process of its own, so that its CPU and memory can be measured like a broker's."""

from __future__ import annotations

import sys


def main() -> None:
    from confluent_kafka import Producer

    owner = Producer({"test.mock.num.brokers": 1, "log_level": 3})
    (broker,) = owner.list_topics(timeout=10).brokers.values()
    print(f"mock ready on {broker.host}:{broker.port}", flush=True)
    sys.stdin.read()  # until the bench ends, in whatever way


if __name__ == "__main__":
    main()
