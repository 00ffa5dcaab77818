"""Subscription and Assignment: vectors of the specification, other implementations, and faulty bytes."""

from __future__ import annotations

import io
from typing import Any

import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyAssignorUserDataV1
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kio.index import load_entity_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from equipoise.wire.consumer_protocol import (
    Assignment,
    StickyUserData,
    Subscription,
    decode_assignment,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_user_data,
    encode_subscription,
)
from equipoise.wire.errors import ProtocolError, UsageError
from tests.effort import examples

FULL = Subscription(topics=["t"], owned_partitions={"t": [0, 1]}, generation_id=5, rack_id="r1")
AS_VERSION = {
    0: Subscription(topics=["t"]),
    1: Subscription(topics=["t"], owned_partitions={"t": [0, 1]}),
    2: Subscription(topics=["t"], owned_partitions={"t": [0, 1]}, generation_id=5),
    3: FULL,
}
SUBSCRIPTIONS = {
    0: "000000000001000174ffffffff",
    1: "000100000001000174ffffffff00000001000174000000020000000000000001",
    2: "000200000001000174ffffffff0000000100017400000002000000000000000100000005",
    3: "000300000001000174ffffffff000000010001740000000200000000000000010000000500027231",
}
ASSIGNMENT = "00000001000174000000020000000000000001ffffffff"  # after the version

names = st.text(max_size=4)
int32s = st.integers(-(2**31), 2**31 - 1)
user_data = st.none() | st.binary(max_size=4)
partitions = st.dictionaries(names, st.lists(int32s, max_size=3), max_size=3)
subscriptions = st.builds(
    Subscription,
    topics=st.lists(names, max_size=3).map(sorted),
    user_data=user_data,
    owned_partitions=partitions.map(lambda owned: {topic: sorted(owned[topic]) for topic in sorted(owned)}),
    generation_id=int32s,
    rack_id=st.none() | names,
)


class TestSubscription:
    @pytest.mark.parametrize("version", range(4))
    def test_vectors(self, version: int) -> None:
        data = bytes.fromhex(SUBSCRIPTIONS[version])
        assert encode_subscription(FULL, version) == data
        assert decode_subscription(data) == AS_VERSION[version]
        assert decode_subscription(memoryview(data)) == AS_VERSION[version]

    def test_the_newest_version_is_written_unless_told_otherwise(self) -> None:
        assert encode_subscription(FULL) == bytes.fromhex(SUBSCRIPTIONS[3])

    def test_order_is_sorted_so_that_equal_subscriptions_have_equal_bytes(self) -> None:
        one = Subscription(topics=["b", "a"], owned_partitions={"b": [1, 0], "a": [2]})
        two = Subscription(topics=["a", "b"], owned_partitions={"a": [2], "b": [0, 1]})
        assert encode_subscription(one) == encode_subscription(two)
        assert decode_subscription(encode_subscription(one)) == two

    def test_a_newer_version_is_read_as_the_newest_known(self) -> None:
        data = bytes.fromhex("0009" + SUBSCRIPTIONS[3][4:]) + b"fields of a later Kafka"
        assert decode_subscription(data) == FULL

    @pytest.mark.parametrize("version", range(4))
    def test_bytes_after_the_last_field_are_ignored(self, version: int) -> None:
        assert decode_subscription(bytes.fromhex(SUBSCRIPTIONS[version]) + b"\0") == AS_VERSION[version]

    def test_the_coordinator_reads_every_version_as_v0(self) -> None:
        claims_v1_has_v0 = bytes.fromhex("0001" + SUBSCRIPTIONS[0][4:])
        with pytest.raises(ProtocolError):
            decode_subscription(claims_v1_has_v0)
        assert decode_subscription(claims_v1_has_v0, newest=0) == AS_VERSION[0]
        assert decode_subscription(bytes.fromhex(SUBSCRIPTIONS[3]), newest=0) == AS_VERSION[0]

    def test_a_topic_that_is_named_twice(self) -> None:
        owned = "00000002" + "000174" + "0000000100000000" + "000174" + "0000000100000007"
        data = bytes.fromhex("0001" + "00000000" + "ffffffff" + owned)
        assert decode_subscription(data).owned_partitions == {"t": [0, 7]}

    @pytest.mark.parametrize("version", range(4))
    def test_cut_at_every_byte(self, version: int) -> None:
        data = bytes.fromhex(SUBSCRIPTIONS[version])
        for size in range(len(data)):
            with pytest.raises(ProtocolError, match=r"^ConsumerProtocolSubscription (v|has)"):
                decode_subscription(data[:size])

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            ("ffff" + SUBSCRIPTIONS[0][4:], "has version -1"),
            ("0000" + "ffffffff" + "ffffffff", "v0: topics: length -1 is not allowed"),
            ("0000" + "7fffffff" + "ffffffff", "v0: topics: 2147483643 bytes are missing"),
            ("0000" + "00000001" + "ffff" + "ffffffff", r"v0: topics\[\]: length -1 is not allowed"),
            ("0000" + "00000001" + "0001ff" + "ffffffff", r"v0: topics\[\]: .utf-8"),
            ("0000" + "00000000" + "fffffffe", "v0: user_data: length -2 is not allowed"),
        ],
    )
    def test_faulty(self, data: str, reason: str) -> None:
        with pytest.raises(ProtocolError, match=reason):
            decode_subscription(bytes.fromhex(data))

    @pytest.mark.parametrize("version", [-1, 4])
    def test_only_known_versions_are_written(self, version: int) -> None:
        with pytest.raises(UsageError, match=f"has versions 0-3, not {version}"):
            encode_subscription(FULL, version)

    def test_a_name_too_long(self) -> None:
        with pytest.raises(UsageError, match=r"topics\[\]: cannot be encoded"):
            encode_subscription(Subscription(topics=["x" * 32768]))


class TestAssignment:
    @pytest.mark.parametrize("version", range(4))
    def test_vectors(self, version: int) -> None:
        data = bytes.fromhex(f"{version:04x}" + ASSIGNMENT)
        assignment = Assignment(assigned_partitions={"t": [0, 1]})
        assert encode_assignment(assignment, version) == data
        assert decode_assignment(data) == assignment
        assert decode_assignment(b"\x01\0" + data[2:] + b"more") == assignment

    def test_the_order_given_is_kept(self) -> None:
        assignment = Assignment(assigned_partitions={"b": [3, 1], "a": [2]}, user_data=b"u")
        decoded = decode_assignment(encode_assignment(assignment))
        assert decoded == assignment
        assert list(decoded.assigned_partitions) == ["b", "a"]

    def test_cut_at_every_byte(self) -> None:
        data = bytes.fromhex("0003" + ASSIGNMENT)
        for size in range(len(data)):
            with pytest.raises(ProtocolError, match=r"^ConsumerProtocolAssignment (v|has)"):
                decode_assignment(data[:size])

    def test_negative_version(self) -> None:
        with pytest.raises(ProtocolError, match="has version -2"):
            decode_assignment(bytes.fromhex("fffe" + ASSIGNMENT))


class TestStickyUserData:
    OWNED = "00000001" + "000174" + "00000002" + "00000000" + "00000001"

    def test_v1_has_a_generation_and_v0_has_none(self) -> None:
        v1 = StickyUserData(owned_partitions={"t": [0, 1]}, generation_id=5)
        assert encode_sticky_user_data(v1) == bytes.fromhex(self.OWNED + "00000005")
        assert decode_sticky_user_data(bytes.fromhex(self.OWNED + "00000005")) == v1
        assert decode_sticky_user_data(bytes.fromhex(self.OWNED)) == StickyUserData(owned_partitions={"t": [0, 1]})

    # The last is that of kafka-python 3, which puts a version before it that no other client expects.
    @pytest.mark.parametrize("data", ["", "00000005", "ffffffff", OWNED[:-2], "0001" + OWNED + "00000005"])
    def test_what_cannot_be_read_is_ignored(self, data: str) -> None:
        assert decode_sticky_user_data(bytes.fromhex(data)) is None


class TestOtherImplementations:
    @settings(max_examples=examples(50), deadline=None, database=None, derandomize=True)
    @given(subscriptions, st.sampled_from(range(4)))
    def test_subscription_is_that_of_kio_and_kafka_python(self, subscription: Subscription, version: int) -> None:
        known = {"topics", "user_data", *("owned_partitions", "generation_id", "rack_id")[:version]}
        values: dict[str, Any] = {name: getattr(subscription, name) for name in known}
        data = encode_subscription(subscription, version)
        assert data == _kio_bytes("subscription", version, values)
        if "owned_partitions" in values:
            values["owned_partitions"] = list(values["owned_partitions"].items())
        assert data == ConsumerProtocolSubscription(version=version, **values).encode(version=version)
        assert encode_subscription(decode_subscription(data), version) == data

    @settings(max_examples=examples(50), deadline=None, database=None, derandomize=True)
    @given(partitions, user_data, st.sampled_from(range(4)))
    def test_assignment_is_that_of_kio_and_kafka_python(
        self, assigned: dict[str, list[int]], data: bytes | None, version: int
    ) -> None:
        assignment = Assignment(assigned_partitions=assigned, user_data=data)
        ours = encode_assignment(assignment, version)
        assert ours == _kio_bytes("assignment", version, {"assigned_partitions": assigned, "user_data": data})
        theirs = ConsumerProtocolAssignment(version=version, assigned_partitions=list(assigned.items()), user_data=data)
        assert ours == theirs.encode(version=version)
        assert decode_assignment(ours) == assignment

    @settings(max_examples=30, deadline=None, database=None, derandomize=True)
    @given(partitions, int32s)
    def test_sticky_user_data_is_that_of_aiokafka(self, owned: dict[str, list[int]], generation: int) -> None:
        ours = encode_sticky_user_data(StickyUserData(owned_partitions=owned, generation_id=generation))
        assert ours == StickyAssignorUserDataV1(list(owned.items()), generation).encode()


def _kio_bytes(kind: str, version: int, values: dict[str, Any]) -> bytes:
    """kio's bytes, which its own reader has read back to the same object, behind the version."""
    module = load_entity_module(f"consumer_protocol_{kind}", version, EntityType.data)
    cls = getattr(module, f"ConsumerProtocol{kind.capitalize()}")
    converted = {
        name: tuple(module.TopicPartition(topic=topic, partitions=tuple(value[topic])) for topic in value)
        if isinstance(value, dict)
        else tuple(value)
        if isinstance(value, list)
        else value
        for name, value in values.items()
    }
    buffer = io.BytesIO()
    entity_writer(cls)(buffer, cls(**converted))
    assert entity_reader(cls)(buffer.getvalue(), 0)[0] == cls(**converted)
    return version.to_bytes(2, "big") + buffer.getvalue()
