"""Records exchanged with Apache Kafka: what it writes is read here, what is written here it reads, and groups move.

One story is told once, in the fixtures: Kafka has groups of every kind, is stopped, and our broker goes on in its
place, at its address, with its files. Then the groups move back, to another Kafka, by their records alone.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from equipoise.client import Admin
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from equipoise.wire.apis.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.offsets_records import CoordinatorRecord, decode_record, encode_key, encode_value
from equipoise.wire.records.build import Record
from proving.brokers import SOON_BACK, BrokerProcess, EquipoiseBroker, KafkaBroker
from proving.moving import OFFSETS_TOPIC, adopt_logs, copy_groups, read_topic
from proving.tools import Tools
from tests.broker.rawclient import RawClient
from tests.proving.needed import needed
from tests.proving.raw_members import RawGroup, RawMember, await_coordinator, commit, view_of_groups

pytestmark = pytest.mark.kafka

SETTINGS = {
    "group.initial.rebalance.delay.ms": 1000,
    "group.initial.rebalance.delay.quiet.ms": 0,  # which Kafka does not know
    "offsets.topic.num.partitions": 3,
    "offsets.retention.check.interval.ms": 300,
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUPS = ("stable", "replaced", "left", "preparing", "completing", "commits", "deleted", "expired", "real")
SECONDS = 60.0


def eventually(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS:.0f} s: {what}"


class RealMember:
    """confluent-kafka, which is told nothing of what goes on behind its address."""

    def __init__(self, address: str) -> None:
        self.rebalances = 0
        self.seen: list[bytes] = []
        config = {"bootstrap.servers": address, "group.id": "real", "auto.offset.reset": "earliest"}
        self.consumer = Consumer(
            config | {"reconnect.backoff.max.ms": 300, "enable.auto.commit": False, "log_level": 0}
        )
        self.consumer.subscribe(["news"], on_assign=self._count, on_revoke=self._count, on_lost=self._count)

    def _count(self, *_: Any) -> None:
        self.rebalances += 1

    def see(self, value: bytes) -> None:
        eventually(f"{value!r} is consumed", lambda: self._poll() == value)

    def _poll(self) -> bytes | None:
        message = self.consumer.poll(0.2)
        if message is None or message.error():
            return None
        value = message.value()
        assert value is not None
        self.seen.append(value)
        self.consumer.commit(message=message, asynchronous=False)
        return value

    def close(self) -> None:
        self.consumer.close()


class Written(NamedTuple):
    """What was in Kafka when it was stopped, who was a member, and our broker in Kafka's place."""

    records: dict[int, list[Record]]
    mixed: dict[int, list[Record]]
    view: dict[str, Any]
    stable: RawGroup
    real: RealMember
    ours: EquipoiseBroker


def produce(address: str, topic: str, value: bytes, codec: str = "none") -> None:
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "enable.idempotence": True})
    for number in range(20):
        producer.produce(topic, value, key=str(number).encode(), headers={"codec": codec})
    assert producer.flush(120) == 0


def say(address: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": address})
    producer.produce("news", value)
    assert producer.flush(120) == 0


def write_groups(address: str, stack: ExitStack) -> RawGroup:
    """A group in each state, and each kind of record. What is committed first keeps a group that has no members yet."""
    two = [{"orders": [0, 1]}, {"orders": [2]}]
    groups = ("stable", "replaced", "left", "preparing", "completing")
    await_coordinator(address, *groups)
    with RawClient(address) as early:
        assert [commit(early, group, "orders", {0: 0}) for group in groups] == [{ErrorCode.NONE}] * len(groups)
    stable = stack.enter_context(RawGroup(address, "stable", two, static=["till"]))
    client = stable.members[0].client
    assert stable.members[0].commit("orders", {0: 5, 1: 6}, "wörter") == {ErrorCode.NONE}

    stack.enter_context(RawGroup(address, "replaced", two, static=["a", "b"]))
    replacing = newcomer(address, "replaced", stack, "a")
    replacing.send_join()
    replacing.joined()

    left = stack.enter_context(RawGroup(address, "left", two))
    assert [member.leave() for member in left.members] == [ErrorCode.NONE] * 2

    stack.enter_context(RawGroup(address, "preparing", two))
    waiting = newcomer(address, "preparing", stack)
    waiting.ask_for_id()
    waiting.send_join()

    unsynced = newcomer(address, "completing", stack)
    unsynced.ask_for_id()
    unsynced.send_join()
    unsynced.joined()

    write_commits(client)
    write_new_protocol(client)
    return stable


def newcomer(address: str, group: str, stack: ExitStack, instance: str | None = None) -> RawMember:
    member = RawMember(address, group, ["orders"], instance)
    stack.callback(member.client.close)
    return member


def write_commits(client: RawClient) -> None:
    for group in ("commits", "deleted"):
        assert commit(client, group, "orders", {0: 1, 1: 2, 2: 3}, leader_epoch=0) == {ErrorCode.NONE}
    assert commit(client, "commits", "mixed", {0: 4}, "until later", retention_ms=3_600_000) == {ErrorCode.NONE}
    assert commit(client, "expired", "orders", {0: 9}, retention_ms=1) == {ErrorCode.NONE}
    partition = OffsetDeleteRequestPartition(partition_index=2)
    topic = OffsetDeleteRequestTopic(name="orders", partitions=[partition])
    client.call(OffsetDeleteRequest(group_id="commits", topics=[topic]))
    (deleted,) = client.call(DeleteGroupsRequest(groups_names=["deleted"]), 2).results
    assert deleted.error_code == ErrorCode.NONE


def write_new_protocol(client: RawClient) -> None:
    """Groups that are not served here; their records must not be in the way of others."""
    for wanted in ({"subscribed_topic_names": ["orders"]}, {"subscribed_topic_regex": "or.*"}):
        group = "new-" + next(iter(wanted))
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=0, rebalance_timeout_ms=9000, topic_partitions=[], **wanted
        )
        answer = client.call(request, 1)
        assert answer.error_code == ErrorCode.NONE, answer.error_message


def has_expired(broker: BrokerProcess) -> bool:
    for record in group_records(read_topic(broker, OFFSETS_TOPIC)):
        if getattr(record.key, "group", None) == "expired" and record.value is None:
            return True
    return False


def group_records(records: dict[int, list[Record]]) -> list[CoordinatorRecord]:
    found = [decode_record(one.key or b"", one.value) for partition in records.values() for one in partition]
    assert all(isinstance(one, CoordinatorRecord) for one in found)
    return [one for one in found if isinstance(one, CoordinatorRecord)]


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    with ExitStack() as stack:
        kafka = stack.enter_context(needed(lambda: KafkaBroker({**SETTINGS, **SOON_BACK})))
        address = kafka.bootstrap_servers
        with Admin(address) as admin:
            for topic, partitions in {"orders": 3, "mixed": 1, "news": 1}.items():
                admin.create_topic(topic, partitions)
        for codec in CODECS:
            produce(address, "mixed", codec.encode() * 50, codec)
        await_coordinator(address, "real")
        real = RealMember(address)
        stack.callback(real.close)
        say(address, b"from Kafka")
        real.see(b"from Kafka")
        stable = write_groups(address, stack)
        eventually("a commit expires", lambda: has_expired(kafka))
        records, mixed = read_topic(kafka, OFFSETS_TOPIC), read_topic(kafka, "mixed")
        view = view_of_groups(address, GROUPS)
        kafka.kill()
        ours = EquipoiseBroker(SETTINGS)
        ours.port = kafka.port
        assert adopt_logs(kafka.logs, ours.data) == ["__consumer_offsets", "mixed", "news", "orders"]
        stack.enter_context(ours)
        await_coordinator(address, *GROUPS)
        yield Written(records, mixed, view, stable, real, ours)


def test_every_record_that_kafka_writes_is_read_and_written_again_byte_for_byte(written: Written) -> None:
    seen = set()
    for record in (one for partition in written.records.values() for one in partition):
        key, value = record.key or b"", record.value
        found = decode_record(key, value)
        assert isinstance(found, CoordinatorRecord)
        assert encode_key(found.key) == key
        assert (None if found.value is None else encode_value(found.value)) == value
        seen.add((int.from_bytes(key[:2], "big"), None if value is None else int.from_bytes(value[:2], "big")))
    commits, groups = {(1, 1), (1, 4), (1, None)}, {(2, 3), (2, None)}
    new_protocol = {(kind, 0) for kind in (3, 5, 6, 7, 8, 16)}
    assert commits | groups | new_protocol <= seen


def test_our_broker_tells_of_kafkas_groups_what_kafka_told(written: Written) -> None:
    view = view_of_groups(written.ours.bootstrap_servers, GROUPS)
    assert {group: about[0][0] for group, about in view.items()} == {
        "stable": "Stable",
        "replaced": "Stable",
        "left": "Empty",
        "preparing": "Stable",  # that a rebalance was under way is not written down
        "completing": "Empty",
        "commits": "Empty",
        "deleted": "Dead",
        "expired": "Dead",
        "real": "Stable",
    }
    in_memory_only = {"preparing", "completing"}
    for group in set(GROUPS) - in_memory_only:
        assert view[group] == written.view[group]


def test_the_log_of_a_topic_is_read_from_kafkas_files_in_every_codec(written: Written) -> None:
    ours = read_topic(written.ours, "mixed")
    assert ours == written.mixed
    assert [record.value for record in ours[0]] == [codec.encode() * 50 for codec in CODECS for _ in range(20)]


def test_a_new_producer_is_not_taken_for_one_of_kafkas(written: Written) -> None:
    before = len(read_topic(written.ours, "mixed")[0])
    produce(written.ours.bootstrap_servers, "mixed", b"ours")
    assert len(read_topic(written.ours, "mixed")[0]) == before + 20


def test_a_real_consumer_goes_on_without_a_rebalance(written: Written) -> None:
    say(written.ours.bootstrap_servers, b"from Equipoise")
    written.real.see(b"from Equipoise")
    assert written.real.seen == [b"from Kafka", b"from Equipoise"]
    assert written.real.rebalances == 1


class MovedBack(NamedTuple):
    kafka: KafkaBroker
    ours: EquipoiseBroker
    before: dict[str, Any]
    copied: int


@pytest.fixture(scope="module")
def moved_back(written: Written) -> Iterator[MovedBack]:
    """Members beat and commit here first; then all groups are copied to another Kafka, which starts again."""
    for member in written.stable.members:
        member.move_to(written.ours.bootstrap_servers)
        assert member.heartbeat() == ErrorCode.NONE
    assert written.stable.members[1].commit("orders", {2: 42}, "from Equipoise") == {ErrorCode.NONE}
    with needed(lambda: KafkaBroker({**SETTINGS, **SOON_BACK})) as kafka:
        with Admin(kafka.bootstrap_servers) as admin:
            for topic, partitions in {"orders": 3, "mixed": 1, "news": 1}.items():
                admin.create_topic(topic, partitions)
        await_coordinator(kafka.bootstrap_servers, "any")
        before = view_of_groups(written.ours.bootstrap_servers, GROUPS)
        copied = copy_groups(written.ours, kafka)
        kafka.kill()
        kafka.start()
        await_coordinator(kafka.bootstrap_servers, *GROUPS)
        yield MovedBack(kafka, written.ours, before, copied)


def test_groups_move_back_to_kafka_by_their_records(moved_back: MovedBack) -> None:
    assert moved_back.copied > 20
    view = view_of_groups(moved_back.kafka.bootstrap_servers, GROUPS)
    for group, (state, members, offsets) in moved_back.before.items():
        assert view[group][0] == state, group
        assert view[group][1] == members, group
        assert view[group][2] == offsets, group


def test_members_go_on_there_with_the_same_generation(written: Written, moved_back: MovedBack) -> None:
    for member in written.stable.members:
        member.move_to(moved_back.kafka.bootstrap_servers)
        assert (member.generation, member.heartbeat()) == (1, ErrorCode.NONE)
        member.send_sync({})
    assert [member.synced() for member in written.stable.members] == written.stable.assignments
    assert written.stable.members[0].commit("orders", {0: 43}) == {ErrorCode.NONE}


# -- what Kafka's own tools read of ours


def told(output: str) -> list[dict[str, Any]]:
    """Kafka's JSON of a record: {"key": {"type": 1, "data": {...}}, "value": {"version": 4, "data": {...}} or null}."""
    found, decoder = [], json.JSONDecoder()
    while output := output[output.find("{") :] if "{" in output else "":
        one, end = decoder.raw_decode(output)
        found.append(one)
        output = output[end:]
    return found


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def as_kafka_tells(record: Record) -> dict[str, Any]:
    """Our reading of a record in the form of Kafka's formatters, without what they encode in ways of their own."""
    found = decode_record(record.key or b"", record.value)
    assert isinstance(found, CoordinatorRecord)
    key = {camel(name): getattr(found.key, name) for name in found.key.fields}
    told: dict[str, Any] = {"key": {"type": found.key.versions.last, "data": key}, "value": None}
    if found.value is not None and record.value is not None:
        data = {camel(name): getattr(found.value, name) for name in found.value.fields}
        told["value"] = {"version": int.from_bytes(record.value[:2], "big"), "data": data}
    return told


def plain(record: dict[str, Any]) -> str:
    """Comparable: ids, bytes and members have forms of their own in JSON, and old versions lack fields."""
    data = (record["value"] or {}).get("data", {})
    if "members" in data:
        data["members"] = sorted(one["memberId"] if isinstance(one, dict) else one.member_id for one in data["members"])
    for name in ("topicId", "expireTimestamp", "leaderEpoch"):
        data.pop(name, None)
    return json.dumps(record, sort_keys=True)


@pytest.mark.parametrize(("formatter", "kind"), [("OffsetsMessageFormatter", 1), ("GroupMetadataMessageFormatter", 2)])
def test_kafkas_formatters_tell_our_records(written: Written, tools: Tools, formatter: str, kind: int) -> None:
    written_so_far = sum(map(len, read_topic(written.ours, OFFSETS_TOPIC).values()))
    output = tools.run(
        "kafka-console-consumer",
        *("--topic", OFFSETS_TOPIC, "--from-beginning", "--timeout-ms", "60000"),
        *("--max-messages", str(written_so_far)),
        *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
        broker=written.ours,
    )
    records = [one for partition in read_topic(written.ours, OFFSETS_TOPIC).values() for one in partition]
    ours = [as_kafka_tells(one) for one in records if one.key and one.key[1] == kind]
    kafkas = [plain(one) for one in told(output.stdout)]
    assert len(kafkas) >= 8
    assert set(kafkas) <= {plain(one) for one in ours}


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with needed(Tools) as running:
        yield running


def test_kafkas_dump_reads_our_segments_of_groups(tools: Tools, tmp_path: Path) -> None:
    settings = SETTINGS | {"offsets.topic.num.partitions": 1}
    with EquipoiseBroker(settings, data=tmp_path / "data") as ours:
        with Admin(ours.bootstrap_servers) as admin:
            admin.create_topic("orders", 3)
        with RawGroup(ours.bootstrap_servers, "g", [{"orders": [0]}, {"orders": [1]}], static=["s"]) as group:
            assert group.members[0].commit("orders", {0: 7}, "noted") == {ErrorCode.NONE}
        written = read_topic(ours, OFFSETS_TOPIC)[0]
        ours.stop()
        segment = tmp_path / "data" / "__consumer_offsets-0" / f"{0:020}.log"
        output = tools.run("kafka-dump-log", "--offsets-decoder", "--files", str(segment))
    assert (output.status, output.stderr) == (0, "")
    assert set(re.findall(r"isvalid: (\w+)", output.stdout)) == {"true"}
    payloads = re.findall(r" key: (\{.*?\}) payload: (\{.*\})$", output.stdout, re.MULTILINE)
    assert len(payloads) == len(written) == 3
    assert '"offset":7' in payloads[-1][1]
    assert '"metadata":"noted"' in payloads[-1][1]
    assert '"groupInstanceId":"s"' in payloads[1][1]


def test_kafkas_dump_reads_our_segments_of_topics_in_every_codec(tools: Tools, tmp_path: Path) -> None:
    with EquipoiseBroker(data=tmp_path / "data") as ours:
        with Admin(ours.bootstrap_servers) as admin:
            admin.create_topic("mixed", 1)
        for codec in CODECS:
            produce(ours.bootstrap_servers, "mixed", codec.encode() * 50, codec)
        ours.stop()
    segment = tmp_path / "data" / "mixed-0" / f"{0:020}.log"
    output = tools.run("kafka-dump-log", "--print-data-log", "--deep-iteration", "--files", str(segment))
    assert (output.status, output.stderr) == (0, "")
    assert set(re.findall(r"isvalid: (\w+)", output.stdout)) == {"true"}
    assert set(re.findall(r"compresscodec: (\w+)", output.stdout)) == set(CODECS)
    values = re.findall(r"^\| offset: (\d+) .* payload: (\w+)$", output.stdout, re.MULTILINE)
    expected = [codec * 50 for codec in CODECS for _ in range(20)]
    assert values == [(str(offset), value) for offset, value in enumerate(expected)]
