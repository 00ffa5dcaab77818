"""Configs and last records of a topic, on our broker."""

from __future__ import annotations

import asyncio

from equipoise.broker import Broker
from equipoise.client import Admin, Producer
from equipoise.views.model import Problem
from equipoise.views.records import shown
from equipoise.watching.access import Access, Questions
from equipoise.watching.topic_details import RECORDS, TopicDetails, topic_details
from equipoise.wire.errors import ErrorCode


def details(broker: Broker, topic: str, *, with_records: bool = True) -> TopicDetails:
    async def once() -> TopicDetails:
        access = Access(bootstrap_servers=broker.bootstrap_servers)
        questions = Questions(access)
        try:
            return await topic_details(access, questions, topic, with_records=with_records)
        finally:
            questions.close()

    return asyncio.run(once())


def test_the_newest_records_of_all_partitions_the_newest_first(broker: Broker, topic: str) -> None:
    assert details(broker, topic).records == ()
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(3 * RECORDS):
            at = 1_700_000_000_000 + number
            producer.send(topic, b"%d" % number, key=None, partition=number % 4, timestamp=at)
        producer.flush()
    found = details(broker, topic).records
    assert found is not None
    assert not isinstance(found, Problem)
    assert [one.value.text for one in found] == [str(number) for number in range(29, 19, -1)]
    assert (found[0].partition, found[0].offset, found[0].key) == (1, 7, shown(None))


def test_configs_are_those_that_were_set_and_records_are_read_only_if_asked_for(broker: Broker, topic: str) -> None:
    assert details(broker, topic, with_records=False) == TopicDetails({}, None)
    with Admin(broker.bootstrap_servers) as admin:
        admin.set_configs(topic, {"retention.ms": "1000"})
    assert details(broker, topic, with_records=False).configs == {"retention.ms": "1000"}


def test_what_cannot_be_had_is_a_problem_of_its_own(broker: Broker) -> None:
    found = details(broker, "none")
    for one in found:
        assert isinstance(one, Problem)
        assert one.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
