"""Every message and version against kio, an independent implementation, field by field and both ways.

A message is rebuilt as kio's object by the names of its fields, so that two fields of one type in the wrong
order do not pass. What kio does not know is listed in UNCOVERED.
"""

from __future__ import annotations

import io
import uuid
from dataclasses import MISSING, is_dataclass
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import UnknownEntity, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.request_header.v1.header import RequestHeader as RequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as RequestHeaderV2
from kio.serial import entity_reader, entity_writer

from equipoise.wire.apis import APIS, Api
from equipoise.wire.apis.headers import (
    decode_request_header,
    encode_request_header,
    request_header_version,
    response_header_version,
)
from equipoise.wire.apis.k01_fetch import FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from equipoise.wire.apis.k23_offset_for_leader_epoch import OffsetForLeaderEpochRequest
from equipoise.wire.schema import ZERO_UUID, Message, Struct, field
from tests.effort import examples
from tests.property.strategies import MESSAGES, each_version, messages, of_messages, sample

EXAMPLES_PER_VERSION = examples(12)

# Known to neither kio nor kafka-python, like the records of `__consumer_offsets`: round trips and vectors only.
UNCOVERED = {("DeleteGroupsRequest", 3), ("DeleteGroupsResponse", 3)}
COVERED = [(cls, version) for cls, version in each_version(MESSAGES) if (cls.__name__, version) not in UNCOVERED]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What kio wraps in an enum, a timedelta or a datetime must stay in the range of that type.
LEGAL_FOR_KIO = {
    "error_code": st.sampled_from([code.value for code in ErrorCode]),
    "partition_error_code": st.sampled_from([code.value for code in ErrorCode]),
    "transaction_start_time_ms": st.integers(0, 2**40),
    "retention_time_ms": st.integers(-(2**40), 2**40),
    "session_lifetime_ms": st.integers(-(2**40), 2**40),
    "log_append_time_ms": st.just(-1) | st.integers(0, 2**40),
}


def kio_class(cls: type[Message], version: int) -> Any:
    load = load_request_schema if cls.__name__.endswith("Request") else load_response_schema
    return load(cls.api_key, version)


def kio_name(name: str) -> str:
    return {"enable_2pc": "enable2_pc"}.get(name, name.removesuffix("_ms"))


def carried(cls: type[Struct], version: int) -> dict[str, str]:
    """Our names of the fields in `version`, by kio's."""
    return {kio_name(name): name for name, row in cls.fields.items() if version in row.versions}


def to_kio(message: Struct, cls: Any, version: int) -> Any:
    names = carried(type(message), version)
    theirs = dataclass_fields(cls)
    assert set(names) == {kio_name(row.name) for row in theirs}, f"fields of {type(message).__name__} v{version}"
    return cls(**{row.name: _kio_value(getattr(message, names[kio_name(row.name)]), row, version) for row in theirs})


def _kio_value(value: Any, row: Any, version: int) -> Any:
    kind, of = row.metadata.get("kafka_type"), _inner(row.type)
    if isinstance(value, list):
        return tuple(to_kio(item, of, version) if is_dataclass(of) else item for item in value)
    if isinstance(value, Struct):
        return to_kio(value, of, version)
    if value is None:
        return row.default if "tag" in row.metadata else None
    return _CONVERSIONS.get(kind, lambda same: same)(value)


_CONVERSIONS: dict[str | None, Any] = {
    "error_code": ErrorCode,
    "uuid": lambda value: None if value == ZERO_UUID else uuid.UUID(bytes=value),
    "timedelta_i32": lambda value: timedelta(milliseconds=value),
    "timedelta_i64": lambda value: timedelta(milliseconds=value),
    "datetime_i64": lambda value: None if value == -1 else EPOCH + timedelta(milliseconds=value),
}


def _inner(annotation: Any) -> Any:
    """The type inside `X | None`, `tuple[X, ...]` or both."""
    while get_origin(annotation) is not None:
        annotation = next(part for part in get_args(annotation) if part is not NoneType)
    return annotation


def check_against_kio(message: Message, cls: Any, version: int) -> None:
    theirs = to_kio(message, cls, version)
    buffer = io.BytesIO()
    entity_writer(cls)(buffer, theirs)
    ours = message.encode(version)
    assert ours == buffer.getvalue()
    assert entity_reader(cls)(ours, 0) == (theirs, len(ours))
    assert type(message).decode(buffer.getvalue(), version) == message


@of_messages(COVERED)
def test_bytes_and_fields_are_those_of_kio(cls: type[Message], version: int) -> None:
    theirs = kio_class(cls, version)

    @settings(
        max_examples=EXAMPLES_PER_VERSION,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(messages(cls, version, LEGAL_FOR_KIO))
    def check(message: Any) -> None:
        check_against_kio(message, theirs, version)

    check_against_kio(sample(cls, version), theirs, version)
    check()


@of_messages(COVERED)
def test_nulls_tags_and_defaults_are_those_of_kio(cls: type[Message], version: int) -> None:
    """kio writes and reads some nulls that it does not declare, so bytes alone do not show them."""
    _compare_declarations(cls, kio_class(cls, version), version)


def _compare_declarations(cls: type[Struct], theirs: Any, version: int) -> None:
    names = carried(cls, version)
    for row in dataclass_fields(theirs):
        ours, kind, of = cls.fields[names[kio_name(row.name)]], row.metadata.get("kafka_type"), _inner(row.type)
        where = f"{cls.__name__}.{row.name} v{version}"
        assert ours.tag == row.metadata.get("tag"), where
        if kind not in ("uuid", "datetime_i64"):  # whose None is kio's way to say zero or -1
            assert (version in ours.nullable) == (NoneType in get_args(row.type)), where
        if row.default not in (MISSING, ()) and not ours.required:
            assert _kio_value(ours.default, row, version) == row.default, where
        if is_dataclass(of):
            _compare_declarations(ours.type[0] if isinstance(ours.type, list) else ours.type, of, version)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_header_versions_are_those_of_kio(api: Api) -> None:
    for _, version in each_version([api.request]):
        if (api.request.__name__, version) in UNCOVERED:
            continue
        request, response = kio_class(api.request, version), kio_class(api.response, version)
        assert request_header_version(api.key, version) == request.__header_schema__.__version__
        assert response_header_version(api.key, version) == response.__header_schema__.__version__


@pytest.mark.parametrize("client_id", [None, "", "né" * 100])
@pytest.mark.parametrize(("api_version", "theirs"), [(3, RequestHeaderV1), (4, RequestHeaderV2)])
def test_request_headers_are_those_of_kio(client_id: str | None, api_version: int, theirs: Any) -> None:
    header = theirs(request_api_key=12, request_api_version=api_version, correlation_id=-7, client_id=client_id)
    buffer = io.BytesIO()
    entity_writer(theirs)(buffer, header)
    data = encode_request_header(12, api_version, -7, client_id)
    assert data == buffer.getvalue()
    assert decode_request_header(data) == (12, api_version, -7, client_id, len(data))


@pytest.mark.parametrize("cls", MESSAGES)
def test_what_no_oracle_covers_is_listed_by_name(cls: type[Message]) -> None:
    for _, version in each_version([cls]):
        if (cls.__name__, version) in UNCOVERED:
            with pytest.raises(UnknownEntity):
                kio_class(cls, version)
        else:
            kio_class(cls, version)


def test_a_shifted_tag_is_caught() -> None:
    class ShiftedTag(Message, api_key=1, versions="15", flexible="12+"):
        cluster_id: str | None = field("string", nullable=True, tag=0, default=None)
        replica_state: ReplicaState | None = field(ReplicaState, tag=2, default=None)
        max_wait_ms: int = field("int32")
        min_bytes: int = field("int32")
        max_bytes: int = field("int32")
        isolation_level: int = field("int8")
        session_id: int = field("int32")
        session_epoch: int = field("int32")
        topics: list[FetchTopic] = field([FetchTopic])
        forgotten_topics_data: list[ForgottenTopic] = field([ForgottenTopic])
        rack_id: str = field("string")

    values = {name: getattr(sample(FetchRequest, 15), name) for name in ShiftedTag.fields}
    check_against_kio(FetchRequest(**values), kio_class(FetchRequest, 15), 15)
    with pytest.raises(AssertionError, match=r"assert b'.*' == b'"):
        check_against_kio(ShiftedTag(**values), kio_class(FetchRequest, 15), 15)


def test_two_swapped_fields_of_one_type_are_caught() -> None:
    class SwappedPartition(Struct):
        partition: int = field("int32")
        leader_epoch: int = field("int32")
        current_leader_epoch: int = field("int32")

    class SwappedTopic(Struct):
        topic: str = field("string")
        partitions: list[SwappedPartition] = field([SwappedPartition])

    class Swapped(Message, api_key=23, versions="2", flexible="4+"):
        topics: list[SwappedTopic] = field([SwappedTopic])

    theirs = kio_class(OffsetForLeaderEpochRequest, 2)
    check_against_kio(sample(OffsetForLeaderEpochRequest, 2), theirs, 2)
    with pytest.raises(AssertionError, match=r"assert b'.*' == b'"):
        check_against_kio(sample(Swapped, 2), theirs, 2)
