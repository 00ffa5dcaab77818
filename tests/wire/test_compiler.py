"""The schema compiler on small tables of its own: layout, versions, tags, bounds, and errors that name a field."""

from __future__ import annotations

import tracemalloc

import pytest

from equipoise.wire.apis.k01_fetch import FetchRequest
from equipoise.wire.apis.k03_metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest
from equipoise.wire.apis.k19_create_topics import CreatableTopicResult, CreateTopicsResponse
from equipoise.wire.compiler import encode_rows
from equipoise.wire.errors import ProtocolError, UsageError
from equipoise.wire.primitives import write_uvarint
from equipoise.wire.schema import ZERO_UUID, Message, Struct, field


class Inner(Struct):
    name: str = field("string")
    data: bytes | None = field("bytes", nullable=True, default=None)


class Sample(Message, api_key=999, versions="0-3", flexible="2+"):
    flag: bool = field("bool")
    count: int = field("int32", "1+", default=-1)
    text: str | None = field("string", nullable="1+")
    numbers: list[int] = field(["int16"], default=[])
    names: list[str] | None = field(["string"], nullable=True, default=None)
    uuids: list[bytes] = field(["uuid"], default=[])
    inner: list[Inner] = field([Inner], default=[])
    tagged: int = field("int64", "2+", tag=0, default=7)
    nested: Inner | None = field(Inner, "3+", tag=2, default=None)


class Longer(Sample, api_key=999, versions="0-3", flexible="2+"):
    added: int = field("int32", "2+", tag=9, default=0)


class Optional(Message, versions="0", flexible="0+"):
    inner: Inner | None = field(Inner, nullable=True, default=None)
    after: int = field("int8")


def sample() -> Sample:
    return Sample(
        flag=True,
        count=5,
        text="ä",
        numbers=[1, -2],
        names=["a", ""],
        uuids=[bytes(range(16))],
        inner=[Inner(name="x", data=b"\0\1"), Inner(name="y")],
        tagged=-1,
        nested=Inner(name="deep", data=b"d"),
    )


def test_layout_of_a_version_before_compact_encoding() -> None:
    message = Sample(flag=True, text="ab", numbers=[258], names=[], inner=[Inner(name="n")])
    assert message.encode(0).hex(" ") == (
        "01 00 02 61 62 00 00 00 01 01 02 00 00 00 00 00 00 00 00 00 00 00 01 00 01 6e ff ff ff ff"
    )


def test_layout_of_a_flexible_version() -> None:
    message = Sample(flag=False, text=None, numbers=[], inner=[Inner(name="n", data=b"z")], tagged=1)
    assert message.encode(2).hex(" ") == (
        "00 ff ff ff ff 00 01 00 01 02 02 6e 02 7a 00 01 00 08 00 00 00 00 00 00 00 01"
    )


@pytest.mark.parametrize("version", range(4))
def test_what_a_version_carries_comes_back_and_the_rest_is_default(version: int) -> None:
    original = sample()
    decoded = Sample.decode(original.encode(version), version)
    assert decoded.count == (5 if version >= 1 else -1)
    assert decoded.tagged == (-1 if version >= 2 else 7)
    assert decoded.nested == (original.nested if version >= 3 else None)
    for name in ("flag", "text", "numbers", "names", "uuids", "inner"):
        assert getattr(decoded, name) == getattr(original, name)


def test_a_tagged_field_with_its_default_is_left_out() -> None:
    message = sample()
    message.tagged, message.nested = 7, None
    assert message.encode(3).endswith(b"\0")
    assert Sample.decode(message.encode(3), 3) == message


def test_a_nullable_struct_has_a_byte_before_it() -> None:
    assert Optional(inner=None, after=1).encode(0).hex(" ") == "ff 01 00"
    present = Optional(inner=Inner(name="", data=None), after=1)
    assert present.encode(0).hex(" ") == "01 01 00 00 01 00"
    assert Optional.decode(present.encode(0), 0) == present


def test_unknown_tagged_fields_are_skipped() -> None:
    known = Sample(flag=True, text="t")
    body = known.encode(3)[:-1]
    unknown = b"\x02" + b"\x05\x01x" + b"\x80\x02" + b"\x83\x01" + bytes(131)
    assert Sample.decode(body + unknown, 3) == known


def test_records_are_a_view_of_the_frame_and_may_be_encoded_in_pieces() -> None:
    class Carrier(Message, versions="0-1", flexible="1+"):
        records: bytes | memoryview | list[memoryview] | None = field("records", nullable=True)

    pieces = [memoryview(b"abc"), memoryview(b"de")]
    for version in (0, 1):
        frame = bytearray(Carrier(records=pieces).encode(version))
        records = Carrier.decode(frame, version).records
        assert isinstance(records, memoryview)
        assert bytes(records) == b"abcde"
        records[0] = ord("X")
        assert b"Xbcde" in frame


@pytest.mark.parametrize("version", range(4))
def test_every_truncation_is_an_error_that_names_message_version_and_field(version: int) -> None:
    whole = sample().encode(version)
    for end in range(len(whole)):
        with pytest.raises(ProtocolError, match=rf"^Sample v{version}: [a-z.\[\] ]+: .*(missing|utf-8)"):
            Sample.decode(whole[:end], version)


def test_a_truncated_field_is_named() -> None:
    whole = sample().encode(0)
    with pytest.raises(ProtocolError, match=r"Sample v0: inner\[\]\.name: 1 bytes are missing"):
        Sample.decode(whole[:-5], 0)


@pytest.mark.parametrize("version", range(4))
def test_trailing_bytes_are_an_error(version: int) -> None:
    with pytest.raises(ProtocolError, match=rf"Sample v{version}: the end: 3 bytes are left over"):
        Sample.decode(sample().encode(version) + b"abc", version)


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"\1\xff\xfe", "text: length -2 is not allowed"),
        (b"\1\xff\xff", "text: length -1 is not allowed"),
        (b"\1\0\1\xff", "text: .*utf-8"),
        (b"\1\0\0\x80\0\0\0", "numbers: length -2147483648 is not allowed"),
        (b"\1\0\0\x7f\xff\xff\xff", "numbers: .* bytes are missing"),
    ],
)
def test_impossible_lengths_are_refused(frame: bytes, complaint: str) -> None:
    with pytest.raises(ProtocolError, match=f"Sample v0: {complaint}"):
        Sample.decode(frame, 0)


def test_a_uvarint_of_more_than_five_bytes_is_refused() -> None:
    with pytest.raises(ProtocolError, match="text: length"):
        Sample.decode(b"\1\0\0\0\0" + b"\xff" * 9 + b"\1", 2)


def test_a_tagged_field_must_fill_its_size() -> None:
    body = Sample(flag=True, text="t").encode(2)[:-1]
    with pytest.raises(ProtocolError, match="Sample v2: tagged: 1 bytes are left over"):
        Sample.decode(body + b"\1\0\x09" + bytes(9), 2)


def test_array_elements_are_bounded_by_the_budget() -> None:
    message = Sample(flag=True, text="", inner=[Inner(name="")] * 6, names=["a"] * 5)
    frame = message.encode(2)
    assert Sample.decode(frame, 2, budget=11) == message
    with pytest.raises(ProtocolError, match=r"Sample v2: inner: 1 elements too many"):
        Sample.decode(frame, 2, budget=10)


def test_a_huge_count_takes_no_memory() -> None:
    frame = b"\1" + b"\0\0" + (2**31 - 1).to_bytes(4, "big")
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        Sample.decode(frame, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


def test_a_value_that_cannot_be_encoded_is_the_callers_error() -> None:
    with pytest.raises(UsageError, match=r"Sample v0: text: cannot be encoded"):
        Sample(flag=True, text=None).encode(0)
    with pytest.raises(UsageError, match=r"Sample v1: numbers: cannot be encoded"):
        Sample(flag=True, text="", numbers=[99999]).encode(1)
    with pytest.raises(UsageError, match=r"Sample v1: inner\[\]\.name: cannot be encoded"):
        Sample(flag=True, text="", inner=[Inner(name="a"), Inner(name=3)]).encode(1)  # type: ignore[arg-type]


def test_a_version_outside_the_table_is_the_callers_error() -> None:
    with pytest.raises(UsageError, match="Sample has versions 0-3, not 4"):
        Sample.decode(b"", 4)


def test_a_required_keyword_is_required_and_lists_are_not_shared() -> None:
    with pytest.raises(TypeError, match="flag"):
        Sample(text="")  # type: ignore[call-arg]
    first, second = Sample(flag=True, text=""), Sample(flag=True, text="")
    first.numbers.append(1)
    assert second.numbers == []
    assert first.uuids == [] != [ZERO_UUID]


def test_messages_compare_and_print_by_value() -> None:
    assert sample() == sample()
    assert sample() != Sample(flag=True, text="")
    assert repr(Inner(name="n", data=b"d")) == "Inner(name='n', data=b'd')"


# -- bounds that are Kafka's, or nobody needs more


def test_no_string_is_longer_than_kafkas() -> None:
    """A compact string could say any length; Kafka's own readers refuse more than 32,767 bytes."""
    longest = ApiVersionsRequest(client_software_name="x" * 32_767).encode(3)
    assert len(ApiVersionsRequest.decode(longest, 3).client_software_name) == 32_767
    with pytest.raises(ProtocolError, match="client_software_name: length 32768 is not allowed"):
        ApiVersionsRequest.decode(ApiVersionsRequest(client_software_name="x" * 32_768).encode(3), 3)


def test_tagged_fields_that_tell_us_nothing_are_counted() -> None:
    body = ApiVersionsRequest().encode(3)
    tags = [write_uvarint(number + 10) + b"\0" for number in range(100)]
    flooded = body[:-1] + write_uvarint(len(tags)) + b"".join(tags)
    assert ApiVersionsRequest.decode(flooded, 3, budget=100) == ApiVersionsRequest()
    with pytest.raises(ProtocolError, match="1 tagged fields too many"):
        ApiVersionsRequest.decode(flooded, 3, budget=99)


def test_known_tagged_fields_are_counted_too() -> None:
    body = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]).encode(17)
    tags = [write_uvarint(number + 10) + b"\0" for number in range(100)]
    flooded = body[:-1] + write_uvarint(len(tags)) + b"".join(tags)
    assert FetchRequest.decode(flooded, 17, budget=100).topics == []
    with pytest.raises(ProtocolError, match="tagged fields too many"):
        FetchRequest.decode(flooded, 17, budget=99)


def test_a_message_for_people_is_cut_rather_than_refused() -> None:
    result = CreatableTopicResult(name="t", error_code=17, error_message="x" * 100_000)
    for version in (4, 7):
        (read,) = CreateTopicsResponse.decode(CreateTopicsResponse(topics=[result]).encode(version), version).topics
        assert read.error_message == "x" * 1000


@pytest.mark.parametrize("version", [1, 8, 12])
def test_rows_may_be_encoded_before_their_message(version: int) -> None:
    rows = [
        MetadataResponsePartition(error_code=0, partition_index=i, leader_id=1, replica_nodes=[1], isr_nodes=[1])
        for i in range(3)
    ]
    topic = MetadataResponseTopic(error_code=0, name="t", partitions=rows)
    message = MetadataResponse(brokers=[], controller_id=1, topics=[topic])
    plain = message.encode(version)
    topic.partitions = encode_rows(MetadataResponse, version, rows)  # type: ignore[assignment]
    assert message.encode(version) == plain


class Head(Struct, shared=True):
    head: int = field("int16", default=0)


class Reason(Struct, shared=True):
    code: int = field("int8")


class Extended(Head, Reason, Message, versions="0"):
    own: int = field("int8")


def test_a_table_has_the_rows_of_those_it_extends_first() -> None:
    message = Extended(code=2, own=3)
    assert message.encode(0).hex(" ") == "00 00 02 03"
    assert Extended.decode(b"\0\1\2\3", 0) == Extended(head=1, code=2, own=3)
    assert not hasattr(message, "__dict__")
    with pytest.raises(TypeError, match="code"):
        Extended(own=3)  # type: ignore[call-arg]


def test_a_table_that_extends_another_one_has_its_own_rows() -> None:
    """Also when the other one was in use before."""
    Sample(flag=True, text="")
    extended = Longer(flag=True, text="", added=5)
    assert Longer.decode(extended.encode(3), 3) == extended
    assert Sample.decode(extended.encode(3), 3) == Sample(flag=True, text="")
