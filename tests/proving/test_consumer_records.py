"""Records of `consumer` groups exchanged with Apache Kafka: read and written again, and groups that move with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from equipoise.coordinator.metadata import EMPTY_IMAGE, TopicImage
from equipoise.wire.offsets_records import (
    ConsumerGroupMetadataValue,
    CoordinatorRecord,
    decode_record,
    encode_key,
    encode_value,
)
from equipoise.wire.records.build import Record
from proving.brokers import KafkaBroker
from proving.conformance.consumer.exchange import WORLD, first_halves, from_kafka, from_ours, scripts
from proving.conformance.play import Played
from proving.conformance.report import Summary
from proving.conformance.worlds import TOPICS, Place, World, kafka_settings, prepare
from proving.moving import OFFSETS_TOPIC, read_topic
from tests.proving.needed import needed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

CONSUMER_TYPES = {3, 5, 6, 7, 8, 16}
Written = tuple[Place, list[Record]]


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    """What Kafka has written when the first halves of the scripts are over."""
    with needed(lambda: KafkaBroker(kafka_settings(WORLD))) as kafka:
        place = prepare(kafka.name, kafka.port)
        for _, side in first_halves(World(WORLD, place, place)):
            side.close()
        yield place, [record for records in read_topic(kafka, OFFSETS_TOPIC).values() for record in records]


def test_every_record_that_kafka_writes_is_read_and_written_again_byte_for_byte(written: Written) -> None:
    _, records = written
    seen = set()
    for record in records:
        found = decode_record(record.key or b"", record.value)
        assert isinstance(found, CoordinatorRecord)
        assert encode_key(found.key) == record.key
        assert (None if found.value is None else encode_value(found.value)) == record.value
        seen.add(found.key.versions.last)
    assert seen > CONSUMER_TYPES


def test_the_metadata_hash_is_kafkas(written: Written) -> None:
    place, records = written
    topics = [TopicImage(place.topic_ids[name], name, partitions) for name, partitions in TOPICS.items()]
    image = EMPTY_IMAGE.with_changes(topics)
    ours = {image.hash_of(names) for names in ([], ["t"], ["u"], ["t", "u"])}
    values = [decode_record(record.key or b"", record.value) for record in records]
    theirs = {
        found.value.metadata_hash
        for found in values
        if isinstance(found, CoordinatorRecord) and isinstance(found.value, ConsumerGroupMetadataValue)
    }
    assert len(theirs) > 1
    assert theirs <= ours


@pytest.mark.parametrize("move", [from_kafka, from_ours])
def test_groups_go_on_with_the_others_log_in_the_middle_of_everything(move: Callable[[], list[Played]]) -> None:
    """Upgrades and downgrades, static members that are away, members that give up and that wait, regexes."""
    played = needed(move)
    summary = Summary(played, "none", is_whole=False)
    assert len(played) == len(scripts())
    assert summary.is_good, summary.text()
