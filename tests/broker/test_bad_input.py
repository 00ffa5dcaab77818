"""Bad input, kind by kind: a clear error, and a broker that serves everybody else as before."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from equipoise.broker import Broker
from equipoise.wire.apis.headers import decode_response_header, encode_request_header
from equipoise.wire.apis.k00_produce import ProduceResponse
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataRequestTopic
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from equipoise.wire.errors import ErrorCode
from equipoise.wire.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    Codec,
    crc_of,
    read_header,
    write_header,
)
from equipoise.wire.records.codecs import DECOMPRESSED_LIMIT, compress
from tests.broker.calls import (
    BY_NAME,
    NOW,
    append,
    batch_of,
    create_topic,
    fetch_request,
    fetched,
    list_offsets,
    produce,
    produce_request,
    read_partition,
)
from tests.broker.conftest import Connect
from tests.broker.rawclient import RawClient, request_frame, sized


@pytest.fixture(autouse=True)
def _others_are_served(broker: Broker, connect: Connect) -> Iterator[None]:
    """A connection opened before the bad input, and one after it, find the broker as it was."""
    before = connect(broker)
    create_topic(before, "good")
    append(before, b"before", topic="good")
    yield
    for client in (before, connect(broker)):
        append(client, b"after", topic="good")
    assert [r.value for r in read_partition(before, "good")] == [b"before", b"after", b"after"]


# -- frames: there is nothing to answer to, so the connection ends, and the log says why

HTTP = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)
METADATA_HEAD = encode_request_header(3, 1, 7, "bad")
FLEXIBLE_HEAD = encode_request_header(3, 12, 7, "bad")
PRODUCE_HEAD = encode_request_header(0, 8, 7, "bad")

BAD_FRAMES = {
    "the size is negative": (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
    "the size is the smallest there is": (struct.pack(">i", -(2**31)), "a frame of -2147483648 bytes"),
    "the size is 0": (struct.pack(">i", 0), "a frame of 0 bytes"),
    "the frame is too short for a header": (sized(b"\0\x12\0\0\0\0\0\1"), "a frame of 8 bytes"),
    "the frame is larger than allowed": (struct.pack(">i", 104_857_601), "a frame of 104857601 bytes"),
    "the size is the largest there is": (struct.pack(">i", 2**31 - 1), "a frame of 2147483647 bytes"),
    "it is HTTP": (HTTP, "bytes; socket.request.max.bytes is"),
    "it is TLS": (TLS, "TLS"),
    "the client id runs out of the frame": (sized(struct.pack(">hhih", 18, 0, 1, 500)), "request header"),
    "the client id has a negative length": (sized(struct.pack(">hhih", 18, 0, 1, -2)), "length -2"),
    "the client id is no UTF-8": (sized(struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xff"), "request header"),
    "the header's tags run out of the frame": (sized(struct.pack(">hhih", 3, 12, 1, -1) + b"\x05"), "request header"),
    "the body is missing": (sized(METADATA_HEAD), "MetadataRequest v1: topics"),
    "an array's count is below -1": (sized(METADATA_HEAD + struct.pack(">i", -2)), "length -2"),
    "an array's count is larger than the frame": (sized(METADATA_HEAD + struct.pack(">i", 2**31 - 1)), "topics"),
    "a string's length is below -1": (sized(METADATA_HEAD + struct.pack(">ih", 1, -3)), "length -3"),
    "a string is null where it may not be": (sized(METADATA_HEAD + struct.pack(">ih", 1, -1)), "length -1"),
    "a string runs out of the frame": (sized(METADATA_HEAD + struct.pack(">ih", 1, 32767)), "topics[].name"),
    "a string is no UTF-8": (sized(METADATA_HEAD + struct.pack(">ih", 1, 1) + b"\xfe"), "topics[].name"),
    "a compact count is larger than the frame": (sized(FLEXIBLE_HEAD + b"\xff\xff\xff\xff\x0f"), "topics"),
    "a uvarint never ends": (sized(FLEXIBLE_HEAD + b"\xff" * 20), "topics"),
    "the records' length is below -1": (
        sized(PRODUCE_HEAD + struct.pack(">hhiih1sii", -1, 1, 1000, 1, 1, b"t", 1, 0) + struct.pack(">i", -9)),
        "records",
    ),
    "an API nobody knows": (sized(struct.pack(">hhih", 9999, 0, 1, -1)), "API key 9999"),
    "a negative API key": (sized(struct.pack(">hhih", -1, 0, 1, -1)), "API key -1"),
    "an API that is not served": (sized(encode_request_header(68, 0, 1, None) + b"\0\0\0\0"), "ConsumerGroupHeartbeat"),
    "a version above those served": (sized(struct.pack(">hhih", 1, 99, 1, -1) + b"\0"), "4-18, not 99"),
    "a version below those served": (sized(struct.pack(">hhih", 0, 2, 1, -1)), "3-13, not 2"),
    "a negative version": (sized(struct.pack(">hhih", 3, -1, 1, -1)), "not -1"),
}


@pytest.mark.parametrize(("frame", "reason"), BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_a_bad_frame_ends_its_connection_and_the_log_says_why(
    client: RawClient, frame: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.send_bytes(frame)
    client.wait_closed()
    assert reason in caplog.text


def test_bytes_left_over_behind_a_request_end_its_connection(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    body = request_frame(ApiVersionsRequest(), 0)[4:] + b"more"
    client.send_bytes(sized(body))
    client.wait_closed()
    assert "4 bytes are left over" in caplog.text


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_an_unknown_version_of_api_versions_is_answered(client: RawClient, version: int) -> None:
    client.send_bytes(sized(struct.pack(">hhih", 18, version, 5, -1) + b"\0whatever follows in that version"))
    reply = client.receive_frame()
    assert reply[:6] == struct.pack(">ih", 5, ErrorCode.UNSUPPORTED_VERSION)


# -- batches: answered with an error for their partition


def rewritten(batch: bytearray, *, keep_crc: bool = False, **fields: int) -> bytearray:
    """The batch with other header fields, and the CRC that fits them unless told otherwise."""
    header: BatchHeader = read_header(batch)._replace(**fields)
    write_header(batch, 0, header)
    if not keep_crc:
        write_header(batch, 0, header._replace(crc=crc_of(batch, 0, len(batch))))
    return batch


def batch() -> bytearray:
    return batch_of(b"one", b"two")


def packed(codec: Codec, body: bytes) -> bytearray:
    """A batch that says it holds one record, compressed to `body`."""
    whole = batch_of(b"value", key=b"k")[:HEADER_SIZE] + body
    return rewritten(whole, attributes=codec, batch_length=len(whole) - LOG_OVERHEAD)


BAD_BATCHES = {
    "magic 0": (rewritten(batch(), magic=0), ErrorCode.INVALID_RECORD),
    "magic 1": (rewritten(batch(), magic=1), ErrorCode.INVALID_RECORD),
    "magic 3": (rewritten(batch(), magic=3), ErrorCode.CORRUPT_MESSAGE),
    "magic -1": (rewritten(batch(), magic=-1), ErrorCode.CORRUPT_MESSAGE),
    "wrong CRC": (rewritten(batch(), keep_crc=True, crc=1), ErrorCode.CORRUPT_MESSAGE),
    "a flipped bit": (batch()[:-1] + b"\x40", ErrorCode.CORRUPT_MESSAGE),
    "cut off": (batch()[:-1], ErrorCode.CORRUPT_MESSAGE),
    "half a header": (batch()[: HEADER_SIZE - 1], ErrorCode.CORRUPT_MESSAGE),
    "negative length": (rewritten(batch(), keep_crc=True, batch_length=-1), ErrorCode.CORRUPT_MESSAGE),
    "length 0": (rewritten(batch(), keep_crc=True, batch_length=0), ErrorCode.CORRUPT_MESSAGE),
    "largest length": (rewritten(batch(), keep_crc=True, batch_length=2**31 - 1), ErrorCode.CORRUPT_MESSAGE),
    "no records": (rewritten(batch(), record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "negative count": (rewritten(batch(), record_count=-5), ErrorCode.INVALID_RECORD),
    "counts that differ": (rewritten(batch(), last_offset_delta=7), ErrorCode.INVALID_RECORD),
    "a giant count": (
        rewritten(batch(), record_count=2**31 - 1, last_offset_delta=2**31 - 2),
        ErrorCode.INVALID_RECORD,
    ),
    "an unknown codec": (rewritten(batch(), attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "a control batch": (rewritten(batch(), attributes=0x20), ErrorCode.INVALID_RECORD),
    "the broker's own time": (rewritten(batch(), attributes=0x08), ErrorCode.INVALID_TIMESTAMP),
    "a producer without sequence": (rewritten(batch(), producer_id=5), ErrorCode.INVALID_RECORD),
    "two batches": (batch() + batch(), ErrorCode.INVALID_RECORD),
    "no bytes": (bytearray(), ErrorCode.INVALID_RECORD),
    "null": (None, ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize(("records", "code"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
def test_a_bad_batch_is_refused_with_its_code_and_leaves_nothing(
    client: RawClient, records: bytearray | None, code: ErrorCode
) -> None:
    create_topic(client)
    answer = produce(client, records)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert answer.error_message
    assert append(client, b"next") == 0


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_compressed_nonsense_is_refused_where_it_must_be_read_and_harms_nobody_where_not(
    client: RawClient, codec: Codec
) -> None:
    create_topic(client, "compacted", configs={"cleanup.policy": "compact"})
    create_topic(client, "plain")
    nonsense = packed(codec, b"\xff" * 20)
    assert produce(client, nonsense, topic="compacted").error_code == ErrorCode.CORRUPT_MESSAGE
    assert produce(client, nonsense, topic="plain").error_code == ErrorCode.NONE
    answer = fetched(client.call(fetch_request({("plain", 0): 0}), BY_NAME))
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 1)
    assert list_offsets(client, NOW, topic="plain").error_code == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_that_unpacks_a_thousandfold_meets_a_limit(client: RawClient) -> None:
    create_topic(client, configs={"cleanup.policy": "compact"})
    bomb = packed(Codec.ZSTD, compress(Codec.ZSTD, bytes(DECOMPRESSED_LIMIT + 1)))
    assert len(bomb) < 100_000
    assert produce(client, bomb).error_code == ErrorCode.CORRUPT_MESSAGE


# -- topics


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a b", "ä", "x" * 250, "a/b", "../../etc", "a\0b", "a:b", "~", "\N{PILE OF POO}"]
)
def test_an_invalid_topic_name_is_refused_everywhere(client: RawClient, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    (created,) = client.call(CreateTopicsRequest(topics=[topic])).topics
    assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "no topic name" in created.error_message
    (described,) = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)])).topics
    assert described.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert produce(client, batch_of(b"a"), topic=name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("count", [0, -2, -(2**31)])
def test_a_topic_needs_partitions(client: RawClient, count: int) -> None:
    topic = CreatableTopic(name="t", num_partitions=count, replication_factor=1)
    (created,) = client.call(CreateTopicsRequest(topics=[topic])).topics
    assert created.error_code == ErrorCode.INVALID_PARTITIONS
    assert str(count) in created.error_message


@pytest.mark.parametrize("count", [10_001, 2**31 - 1])
def test_nobody_can_fill_the_memory_with_partitions_at_once(client: RawClient, count: int) -> None:
    topic = CreatableTopic(name="t", num_partitions=count, replication_factor=1)
    (created,) = client.call(CreateTopicsRequest(topics=[topic])).topics
    assert created.error_code == ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("name", ["__consumer_offsets", "__rebalances"])
@pytest.mark.parametrize("client_id", ["raw", "__admin_client"])
def test_the_internal_topics_are_written_by_the_broker_alone(
    broker: Broker, client: RawClient, name: str, client_id: str
) -> None:
    """Whatever a client calls itself: Kafka lets `__admin_client` write."""
    broker.call(lambda server: server.topics.create_internal(name, 1, {"cleanup.policy": "compact"}))
    batch = batch_of(b"a", key=b"k")
    client.send_bytes(request_frame(produce_request(batch, name), BY_NAME, client_id=client_id))
    frame = client.receive_frame()
    _, pos = decode_response_header(frame, ProduceResponse.api_key, BY_NAME)
    (topic,) = ProduceResponse.decode(frame, BY_NAME, pos).responses
    assert [answer.error_code for answer in topic.partition_responses] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert list_offsets(client, -1, topic=name).offset == 0


def test_produce_to_an_unknown_topic_does_not_create_it(client: RawClient) -> None:
    answer = client.call(produce_request(batch_of(b"a"), "absent"), BY_NAME)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (described,) = client.call(
        MetadataRequest(topics=[MetadataRequestTopic(name="absent")], allow_auto_topic_creation=False)
    ).topics
    assert described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
