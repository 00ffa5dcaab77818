"""The security state on disk and in memory: what is answered is kept, and no client gets near it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.topics.topics import SECURITY_TOPIC
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from equipoise.wire.apis.k35_describe_log_dirs import DescribeLogDirsRequest
from equipoise.wire.apis.k75_describe_topic_partitions import DescribeTopicPartitionsRequest
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError
from equipoise.wire.records.batch import read_header
from equipoise.wire.security_records import ClientQuotaKey, ClientQuotaValue, QuotaEntity, SecurityRecord
from tests.broker.calls import batch_of, delete_topic, list_offsets, produce
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient
from tests.broker.test_topic_configs import SET, change
from tests.broker.test_topics import create, grow, topic
from tests.security.test_state import credential, quota, removed


def put(broker: Broker, *records: SecurityRecord) -> KafkaError | None:
    """Returns when the change has ended."""
    ended: list[KafkaError | None] = []
    broker.call(lambda server: server.security.change(lambda state: records, ended.append))
    eventually(lambda: bool(ended), "the change has ended")
    return ended[0]


def topic_id(broker: Broker) -> bytes:
    def find(server: Any) -> bytes:
        found: bytes = server.topics.get_hidden(SECURITY_TOPIC).topic_id
        return found

    return broker.call(find)


def users(broker: Broker) -> set[str]:
    return broker.call(lambda server: set(server.security.state.users))


class TestKeeping:
    def test_a_restart_keeps_all_that_was_answered(self, start: Start, tmp_path: Path) -> None:
        broker = start(data=tmp_path)
        assert put(broker, credential("alice"), credential("bob"), quota(7.5)) is None
        assert put(broker, removed(credential("bob"))) is None
        before = broker.call(lambda server: (server.security.state.users, server.security.state.quotas))
        broker.stop()
        broker.start()
        assert broker.call(lambda server: (server.security.state.users, server.security.state.quotas)) == before
        assert users(broker) == {"alice"}

    def test_in_memory_it_is_the_same_without_a_restart(self, broker: Broker) -> None:
        assert put(broker, credential("alice")) is None
        assert users(broker) == {"alice"}

    def test_nothing_is_made_before_the_first_change(self, broker: Broker) -> None:
        assert put(broker) is None
        assert broker.call(lambda server: server.topics.get_hidden(SECURITY_TOPIC)) is None

    def test_changes_are_decided_one_after_the_other(self, start: Start, tmp_path: Path) -> None:
        """The second sees what the first has changed, even if the first still waits for the disk."""
        broker, seen, ended = start(data=tmp_path), list[list[str]](), list[KafkaError | None]()

        def decide(name: str) -> Callable[[Any], list[SecurityRecord]]:
            def of_state(state: Any) -> list[SecurityRecord]:
                seen.append(sorted(state.users))
                return [credential(name)]

            return of_state

        def both(server: Any) -> None:
            for name in ("a", "b", "c"):
                server.security.change(decide(name), ended.append)

        broker.call(both)
        eventually(lambda: len(ended) == 3, "all changes have ended")
        assert seen == [[], ["a"], ["a", "b"]]

    def test_a_change_that_fails_does_not_stop_the_next(self, broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
        ended: list[KafkaError | None] = []

        def fail(state: Any) -> list[SecurityRecord]:
            raise ZeroDivisionError

        def refuse(state: Any) -> list[SecurityRecord]:
            raise KafkaError(ErrorCode.INVALID_REQUEST)

        broker.call(lambda server: server.security.change(fail, ended.append))
        broker.call(lambda server: server.security.change(refuse, ended.append))
        assert put(broker, credential("alice")) is None
        assert [record.exc_info is not None for record in caplog.records] == [True]
        caplog.clear()
        assert [error.code for error in ended if error] == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INVALID_REQUEST]

    def test_what_the_disk_refuses_is_not_applied(self, start: Start, tmp_path: Path) -> None:
        broker = start(data=tmp_path)
        assert put(broker, credential("alice")) is None

        def break_disk(server: Any) -> None:
            def refuse(*args: object, **options: object) -> None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "broken")

            server.append = refuse

        broker.call(break_disk)
        error = put(broker, credential("bob"))
        assert error is not None
        assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert users(broker) == {"alice"}

    def test_a_record_that_cannot_be_read_keeps_the_broker_from_starting(self, start: Start, tmp_path: Path) -> None:
        """Without its rules it would allow what they deny."""
        broker = start(data=tmp_path)
        unknown = ClientQuotaKey(entity=[QuotaEntity(entity_type="user", entity_name="a")], key="k")
        put(broker, SecurityRecord(unknown, ClientQuotaValue(value=1)))

        def spoil(server: Any) -> None:
            partition = server.topics.get_hidden(SECURITY_TOPIC).partitions[0]
            data = memoryview(batch_of(b"x", key=b"\0\x63"))
            server.append(partition, data, [(0, read_header(data))], 0, keyed=True)

        broker.call(spoil)
        broker.stop()
        with pytest.raises(UsageError, match=r"__security-0 could not be read.* type 99"):
            Broker(data=tmp_path).start()


class TestHiding:
    @pytest.fixture
    def client(self, broker: Broker, connect: Connect) -> RawClient:
        put(broker, credential("alice"))
        return connect(broker)

    def test_metadata_does_not_know_it(self, broker: Broker, client: RawClient) -> None:
        assert client.call(MetadataRequest(topics=None)).topics == []
        for asked in (MetadataRequestTopic(name=SECURITY_TOPIC),):
            (found,) = client.call(MetadataRequest(topics=[asked], allow_auto_topic_creation=True)).topics
            assert (found.error_code, found.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
        asked = MetadataRequestTopic(name=None, topic_id=topic_id(broker))
        (found,) = client.call(MetadataRequest(topics=[asked])).topics
        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert client.call(DescribeTopicPartitionsRequest(topics=[])).topics == []
        assert client.call(DescribeLogDirsRequest(topics=None)).results[0].topics == []

    def test_nobody_reads_or_writes_it(self, client: RawClient) -> None:
        assert list_offsets(client, -1, topic=SECURITY_TOPIC).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer = produce(client, batch_of(b"a", key=b"k"), topic=SECURITY_TOPIC)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_nobody_changes_or_deletes_it(self, broker: Broker, client: RawClient) -> None:
        assert delete_topic(client, SECURITY_TOPIC) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert grow(client, 3, name=SECURITY_TOPIC) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        altered = change(client, ("retention.ms", SET, "1"), name=SECURITY_TOPIC)
        assert altered.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert users(broker) == {"alice"}

    def test_it_is_compacted_with_the_others(self, broker: Broker) -> None:
        put(broker, credential("alice"))
        logs = broker.call(lambda server: [one.name for one in server.topics.logs() if one.config.compacts])
        assert logs == ["__security-0"]


@pytest.mark.parametrize("name", ["__security", "_.security", "..security"])
def test_its_name_is_reserved_before_there_is_one(client: RawClient, name: str) -> None:
    (created,) = create(client, topic(name))
    assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
