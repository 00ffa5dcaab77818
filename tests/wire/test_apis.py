"""The tables as a whole: ranges, clients, headers, and what happens to bytes that do not fit a table."""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import pkgutil
import sys
from functools import cache
from typing import Any

import aiokafka.protocol
import pytest
from aiokafka.protocol.api import Request

from equipoise.wire import apis
from equipoise.wire.apis import APIS
from equipoise.wire.apis.headers import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    request_header_version,
    response_header_version,
)
from equipoise.wire.apis.k00_produce import ProduceRequest
from equipoise.wire.apis.k01_fetch import FetchResponse
from equipoise.wire.apis.k03_metadata import MetadataRequest
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from equipoise.wire.apis.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest
from equipoise.wire.errors import ProtocolError, UsageError
from equipoise.wire.schema import Message, Struct, field
from tests.property.strategies import MESSAGES, each_version, of_messages, sample

# Apache Kafka 4.x: validVersions and the first flexible version of each API.
KAFKA_4 = {
    "Produce": (0, 3, 13, 9),
    "Fetch": (1, 4, 18, 12),
    "ListOffsets": (2, 1, 11, 6),
    "Metadata": (3, 0, 13, 9),
    "OffsetCommit": (8, 2, 10, 8),
    "OffsetFetch": (9, 1, 10, 6),
    "FindCoordinator": (10, 0, 6, 3),
    "JoinGroup": (11, 0, 9, 6),
    "Heartbeat": (12, 0, 4, 4),
    "LeaveGroup": (13, 0, 5, 4),
    "SyncGroup": (14, 0, 5, 4),
    "DescribeGroups": (15, 0, 6, 5),
    "ListGroups": (16, 0, 5, 3),
    "SaslHandshake": (17, 0, 1, None),
    "ApiVersions": (18, 0, 4, 3),
    "CreateTopics": (19, 2, 7, 5),
    "DeleteTopics": (20, 1, 6, 4),
    "DeleteRecords": (21, 0, 2, 2),
    "InitProducerId": (22, 0, 6, 2),
    "OffsetForLeaderEpoch": (23, 2, 4, 4),
    "AddPartitionsToTxn": (24, 0, 5, 3),
    "AddOffsetsToTxn": (25, 0, 4, 3),
    "EndTxn": (26, 0, 5, 3),
    "WriteTxnMarkers": (27, 1, 2, 1),
    "TxnOffsetCommit": (28, 0, 5, 3),
    "DescribeAcls": (29, 1, 3, 2),
    "CreateAcls": (30, 1, 3, 2),
    "DeleteAcls": (31, 1, 3, 2),
    "DescribeConfigs": (32, 1, 4, 4),
    "AlterConfigs": (33, 0, 2, 2),
    "DescribeLogDirs": (35, 1, 5, 2),
    "SaslAuthenticate": (36, 0, 2, 2),
    "CreatePartitions": (37, 0, 3, 2),
    "DeleteGroups": (42, 0, 3, 2),
    "ElectLeaders": (43, 0, 2, 2),
    "IncrementalAlterConfigs": (44, 0, 1, 1),
    "AlterPartitionReassignments": (45, 0, 1, 0),
    "ListPartitionReassignments": (46, 0, 0, 0),
    "OffsetDelete": (47, 0, 0, None),
    "DescribeClientQuotas": (48, 0, 1, 1),
    "AlterClientQuotas": (49, 0, 1, 1),
    "DescribeUserScramCredentials": (50, 0, 0, 0),
    "AlterUserScramCredentials": (51, 0, 0, 0),
    "DescribeCluster": (60, 0, 2, 0),
    "DescribeProducers": (61, 0, 0, 0),
    "DescribeTransactions": (65, 0, 0, 0),
    "ListTransactions": (66, 0, 2, 0),
    "ConsumerGroupHeartbeat": (68, 0, 1, 0),
    "ConsumerGroupDescribe": (69, 0, 1, 0),
    "ListConfigResources": (74, 0, 1, 0),
    "DescribeTopicPartitions": (75, 0, 0, 0),
}

# kafkajs 2.2 sends the lower of its own newest version and the broker's, without a look at the broker's oldest.
KAFKAJS_NEWEST = {
    0: 7, 1: 11, 2: 3, 3: 6, 8: 5, 9: 4, 10: 2, 11: 5, 12: 3, 13: 3, 14: 3, 15: 2, 16: 2, 17: 1, 18: 2,
    19: 3, 20: 1, 21: 1, 22: 1, 32: 2, 33: 1, 36: 1, 37: 1, 42: 1,
}  # fmt: skip

# librdkafka 2.15, where its newest version lies below Kafka 4's newest.
LIBRDKAFKA_NEWEST = {0: 10, 1: 16, 2: 7, 8: 9, 9: 9, 10: 2, 11: 5, 12: 3, 13: 1, 14: 3, 15: 5, 16: 4, 17: 1, 18: 3,
                     23: 2, 36: 1, 42: 2}  # fmt: skip

CUT = "missing|unexpected end of data"  # the latter where the cut falls inside a character


class TestRanges:
    @pytest.mark.parametrize("name", KAFKA_4)
    def test_each_api_has_the_versions_of_kafka_4(self, name: str) -> None:
        key, first, last, flexible = KAFKA_4[name]
        api = APIS[key]
        assert (api.name, api.key) == (name, key)
        for cls in (api.request, api.response):
            assert cls.api_key == key
            assert (cls.versions.first, cls.versions.last) == (first, last)
            assert flexible == (cls.flexible.first if last in cls.flexible else None)

    def test_every_file_of_the_package_is_an_api(self) -> None:
        files = {module.name for module in pkgutil.iter_modules(apis.__path__)} - {"common", "headers"}
        assert {api.request.__module__.rsplit(".", 1)[1] for api in APIS.values()} == files
        assert {name[:3] for name in files} == {f"k{key:02}" for key in APIS}
        assert {api.name for api in APIS.values()} == set(KAFKA_4)

    def test_field_versions_lie_inside_the_range_of_their_message(self) -> None:
        for cls in MESSAGES:
            for struct in _structs(cls):
                for name, row in struct.fields.items():
                    assert row.versions.first <= cls.versions.last, (struct, name)
                    assert row.tag is None or row.versions.first >= cls.flexible.first, (struct, name)
                tags = [row.tag for row in struct.fields.values() if row.tag is not None]
                assert sorted(tags) == list(range(len(tags))), struct


class TestClients:
    @pytest.mark.parametrize("newest", [KAFKAJS_NEWEST, LIBRDKAFKA_NEWEST], ids=["kafkajs", "librdkafka"])
    def test_the_newest_version_of_an_older_client_is_known(self, newest: dict[int, int]) -> None:
        for key, version in newest.items():
            assert min(version, APIS[key].request.versions.last) in APIS[key].request.versions, APIS[key].name

    def test_aiokafka_finds_a_version_of_every_request_it_has(self) -> None:
        requests = [request for request in _aiokafka_requests() if request.API_KEY in APIS]
        assert {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 32, 33, 37} <= {
            request.API_KEY for request in requests
        }
        for request in requests:
            versions = {struct.API_VERSION for struct in request._CLASSES}
            assert any(version in APIS[request.API_KEY].request.versions for version in versions), request


def _aiokafka_requests() -> list[type[Request[Any]]]:
    for module in pkgutil.iter_modules(aiokafka.protocol.__path__):
        importlib.import_module(f"aiokafka.protocol.{module.name}")
    return [cls for cls in Request.__subclasses__() if not inspect.isabstract(cls)]


class TestHeaders:
    def test_request_header_v1_and_v2(self) -> None:
        assert encode_request_header(12, 3, 258, "me") == bytes.fromhex("000c 0003 00000102 0002 6d65")
        assert encode_request_header(12, 4, 258, "me") == bytes.fromhex("000c 0004 00000102 0002 6d65 00")
        assert encode_request_header(12, 4, 258, None) == bytes.fromhex("000c 0004 00000102 ffff 00")

    def test_position_of_the_body_counts_from_the_start_of_the_buffer(self) -> None:
        data = b"****" + encode_request_header(18, 3, 1, "me") + b"body"
        assert decode_request_header(data, 4) == (18, 3, 1, "me", len(data) - 4)

    def test_unknown_tagged_fields_are_skipped(self) -> None:
        head = encode_request_header(12, 4, 1, "me")[:-1]
        tags = b"\x02" + b"\x07\x03abc" + b"\xff\x01\x00"
        assert decode_request_header(head + tags + b"body") == (12, 4, 1, "me", len(head + tags))
        assert decode_response_header(b"\0\0\0\x09" + tags + b"body", 12, 4) == (9, 4 + len(tags))

    def test_response_headers(self) -> None:
        assert encode_response_header(12, 3, 9) == b"\0\0\0\x09"
        assert encode_response_header(12, 4, 9) == b"\0\0\0\x09\0"
        assert decode_response_header(b"\0\0\0\x09body", 12, 3) == (9, 4)
        assert decode_response_header(b"\0\0\0\x09\0body", 12, 4) == (9, 5)

    @pytest.mark.parametrize("version", range(5))
    def test_api_versions_is_always_answered_with_header_v0(self, version: int) -> None:
        assert response_header_version(18, version) == 0
        assert encode_response_header(18, version, 9) == b"\0\0\0\x09"

    def test_a_version_newer_than_ours_has_the_newest_header(self) -> None:
        assert request_header_version(18, 99) == 2
        assert request_header_version(17, 99) == 1

    @pytest.mark.parametrize("api_version", [3, 4])
    def test_a_header_cut_anywhere_is_refused(self, api_version: int) -> None:
        data = encode_request_header(12, api_version, 1, "me")
        for size in range(len(data)):
            with pytest.raises(ProtocolError, match=f"request header of {size} bytes: .*missing"):
                decode_request_header(data[:size])

    @pytest.mark.parametrize("size", range(5))
    def test_a_response_header_cut_anywhere_is_refused(self, size: int) -> None:
        with pytest.raises(ProtocolError, match=f"response header of {size} bytes: .*missing"):
            decode_response_header(bytes(size), 12, 4)

    @pytest.mark.parametrize(
        ("tags", "reason"),
        [
            (b"\x01\x05\x09ab", "7 bytes are missing"),
            (b"\xff\xff\xff\xff\x0f", "bytes are missing"),
            (b"\xff\xff\xff\xff\xff\xff", "is not allowed"),
        ],
    )
    def test_a_tagged_section_that_lies_is_refused(self, tags: bytes, reason: str) -> None:
        with pytest.raises(ProtocolError, match=reason):
            decode_request_header(encode_request_header(12, 4, 1, None)[:-1] + tags)

    def test_client_id_that_is_no_text_or_has_a_negative_length(self) -> None:
        with pytest.raises(ProtocolError, match="utf-8"):
            decode_request_header(bytes.fromhex("000c 0003 00000001 0001 ff"))
        with pytest.raises(ProtocolError, match="length -2 is not allowed"):
            decode_request_header(bytes.fromhex("000c 0003 00000001 fffe"))

    def test_unknown_api(self) -> None:
        with pytest.raises(ProtocolError, match=r"API key 999 \(unknown\) is not served"):
            decode_request_header(bytes.fromhex("03e7 0000 00000001 ffff"))

    def test_client_id_too_long(self) -> None:
        with pytest.raises(UsageError, match="client id of 32768 bytes"):
            encode_request_header(12, 3, 1, "x" * 32768)


class TestFaultyBytes:
    @pytest.mark.parametrize(
        ("size", "path"),
        [(0, "group_id"), (4, "group_id"), (5, "generation_id"), (9, "member_id"), (13, "member_id")],
    )
    def test_the_field_named_is_the_one_that_is_cut(self, size: int, path: str) -> None:
        data = HeartbeatRequest(group_id="abc", generation_id=1, member_id="def").encode(0)
        assert len(data) == 14
        with pytest.raises(ProtocolError, match=f"^HeartbeatRequest v0: {path}: .*missing"):
            HeartbeatRequest.decode(data[:size], 0)

    @of_messages(each_version(MESSAGES))
    def test_cut_at_every_byte_or_with_bytes_left_over(self, cls: type[Message], version: int) -> None:
        data = sample(cls, version).encode(version)
        for size in range(len(data)):
            _assert_refused(cls, version, data[:size], CUT)
        if not cls.ignore_rest:
            _assert_refused(cls, version, data + b"\0\0\0", "3 bytes are left over")

    def test_only_two_requests_may_have_bytes_left_over(self) -> None:
        """Those of clients that are known to send more than the message has."""
        assert [cls for cls in MESSAGES if cls.ignore_rest] == [MetadataRequest, AlterUserScramCredentialsRequest]
        request = MetadataRequest(topics=None)
        assert MetadataRequest.decode(request.encode(9) + b"\0\0\0", 9) == request

    @of_messages([(cls, version) for cls, version in each_version(MESSAGES) if version in cls.flexible])
    def test_unknown_tagged_fields_are_skipped_at_every_depth(self, cls: type[Message], version: int) -> None:
        message = sample(cls, version)
        data = _copy(message, _widened(cls)).encode(version)
        assert len(data) > len(message.encode(version))
        assert cls.decode(data, version) == message

    @pytest.mark.parametrize("count", ["7fffffff", "00000005", "fffffffe", "80000000"])
    def test_array_count_beyond_the_bytes_that_follow(self, count: str) -> None:
        data = bytes.fromhex("ffff 0001 000003e8" + count)
        _assert_refused(ProduceRequest, 3, data, "topic_data: .*(missing|not allowed)")

    def test_null_where_none_is_allowed(self) -> None:
        _assert_refused(HeartbeatRequest, 0, bytes.fromhex("ffff 00000001 0000"), "length -1 is not allowed")

    def test_a_version_outside_the_range_is_the_callers_error(self) -> None:
        with pytest.raises(UsageError, match="HeartbeatRequest has versions 0-4, not 5"):
            HeartbeatRequest.decode(b"", 5)
        with pytest.raises(UsageError, match="HeartbeatResponse has versions 0-4, not -1"):
            HeartbeatResponse(error_code=0).encode(-1)

    def test_a_null_that_the_version_cannot_carry_is_the_callers_error(self) -> None:
        request = HeartbeatRequest(group_id=None, generation_id=1, member_id="")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="HeartbeatRequest v4: group_id: cannot be encoded"):
            request.encode(4)


def test_a_refused_request_is_not_kept() -> None:
    """An error that is kept in a frame of its own traceback keeps the request with it, until garbage is collected."""
    data = bytearray(HeartbeatRequest(group_id="g" * 1000, generation_id=1, member_id="m").encode(4)[:-1])
    before = sys.getrefcount(data)
    gc.disable()
    try:
        with contextlib.suppress(ProtocolError):
            HeartbeatRequest.decode(data, 4)
        assert sys.getrefcount(data) == before
    finally:
        gc.enable()


def test_records_are_views_of_the_buffer_and_not_copies() -> None:
    message = sample(FetchResponse, 12)
    data = bytearray(message.encode(12))
    records = FetchResponse.decode(data, 12).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    data[data.index(b"\1\2\3")] = 9
    assert bytes(records) == b"\x09\2\3"


def _assert_refused(cls: type[Message], version: int, data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason) as refused:
        cls.decode(data, version)
    name, path, _ = str(refused.value).split(": ", 2)
    assert name == f"{cls.__name__} v{version}"
    assert path.split(".")[0].removesuffix("[]") in {*cls.fields, "tagged fields", "the end"}


def _structs(cls: type[Struct]) -> list[type[Struct]]:
    """`cls` and all structs inside it."""
    inside = [row.type[0] if isinstance(row.type, list) else row.type for row in cls.fields.values()]
    return [cls] + [found for type in inside if not isinstance(type, str) for found in _structs(type)]


@cache
def _widened(cls: type[Struct]) -> Any:
    """`cls` as a later Kafka might have it: every struct in it with tagged fields we have not heard of."""
    rows: dict[str, Any] = {
        name: row._replace(type=_widened_type(row.type), default=None if _is_struct(row.type) else row.default)
        for name, row in cls.fields.items()
    }
    rows["novelty"] = field("string", tag=100, default="")
    rows["long_novelty"] = field("bytes", tag=300, default=b"")
    make: Any = type(cls)
    if issubclass(cls, Message):
        options = {"versions": str(cls.versions), "flexible": f"{cls.flexible.first}+"}
        return make(cls.__name__, (Message,), rows, **options)
    return make(cls.__name__, (Struct,), rows)


def _is_struct(type: Any) -> bool:
    return not isinstance(type, str | list)


def _widened_type(type: Any) -> Any:
    if isinstance(type, list):
        return [_widened_type(type[0])]
    return type if isinstance(type, str) else _widened(type)


def _copy(message: Any, cls: Any) -> Any:
    values = {name: _copy_value(getattr(message, name), cls.fields[name].type) for name in message.fields}
    return cls(**values, novelty="new", long_novelty=bytes(200))


def _copy_value(value: Any, type: Any) -> Any:
    if isinstance(value, list):
        return [_copy_value(item, type[0]) for item in value]
    return _copy(value, type) if isinstance(value, Struct) else value
