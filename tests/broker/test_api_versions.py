"""ApiVersions: what a client is told before it knows anything."""

from __future__ import annotations

import struct

import pytest

from equipoise.broker import Broker
from equipoise.broker.handlers import HANDLERS
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.errors import ErrorCode
from tests.broker.calls import served_apis
from tests.broker.conftest import Connect, Start
from tests.broker.rawclient import RawClient, sized


@pytest.mark.parametrize("version", range(5))
def test_every_version_tells_the_same_ranges(client: RawClient, version: int) -> None:
    served = served_apis(client, version)
    assert served.keys() == HANDLERS.keys()
    for key, (first, last) in served.items():
        if key != 0:
            assert (first, last) == HANDLERS[key].versions


def test_produce_is_advertised_from_0_because_librdkafka_compresses_only_then(client: RawClient) -> None:
    assert served_apis(client)[0] == (0, HANDLERS[0].versions.last)


@pytest.mark.parametrize("version", [5, 6, 1000, 32767])
def test_an_unknown_version_is_answered_in_the_form_of_version_0(client: RawClient, version: int) -> None:
    client.send_bytes(sized(struct.pack(">hhih", 18, version, 77, -1) + b"\0\5\5\5\5"))
    reply = client.receive_frame()
    assert reply[:4] == struct.pack(">i", 77)
    answer = ApiVersionsResponse.decode(reply, 0, 4)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys} == served_apis(client)


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_the_feature_of_consumer_groups(client: RawClient, version: int) -> None:
    """Rule A1.2: a supported feature from level 0 on cannot be read before v4."""
    answer = client.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), version)
    supported = [(one.name, one.min_version, one.max_version) for one in answer.supported_features]
    finalized = [(one.name, one.min_version_level, one.max_version_level) for one in answer.finalized_features]
    assert supported == ([("group.version", 0, 1), ("transaction.version", 0, 2)] if version >= 4 else [])
    assert finalized == ([("group.version", 1, 1), ("transaction.version", 2, 2)] if version >= 3 else [])
    assert answer.finalized_features_epoch == (0 if version >= 3 else -1)


def test_without_consumer_groups_there_is_no_feature(start: Start, connect: Connect) -> None:
    client = connect(start({"group.coordinator.rebalance.protocols": "classic"}))
    answer = client.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    assert [one.name for one in answer.supported_features] == ["transaction.version"]
    assert [one.name for one in answer.finalized_features] == ["transaction.version"]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_level_of_transactions_is_a_setting(start: Start, connect: Connect, level: int) -> None:
    """Rule T.61: level 0 is not told, as on Kafka."""
    client = connect(start({"transaction.version": level}))
    answer = client.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    levels = {one.name: one.max_version_level for one in answer.finalized_features}
    assert levels.get("transaction.version", 0) == level


def test_the_clients_software_is_kept_with_its_connection(broker: Broker, client: RawClient) -> None:
    client.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1.2"), 3)
    assert broker.call(lambda s: [c.client_software for c in s.connections]) == [("raw", "1.2")]


@pytest.mark.parametrize("name", ["", "-raw", "raw-", "r aw", "ra/w", "\x1b[31m", "x" * 32_766 + "."])
@pytest.mark.parametrize("version", [3, 4])
def test_a_software_name_that_kafka_would_not_take_is_refused(
    broker: Broker, client: RawClient, name: str, version: int
) -> None:
    """KIP-511: it is shown to people, and kept."""
    for names in ((name, "1.2"), ("raw", name)):
        request = ApiVersionsRequest(client_software_name=names[0], client_software_version=names[1])
        answer = client.call(request, version)
        assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])
    assert broker.call(lambda s: [c.client_software for c in s.connections]) == [("", "")]


def test_every_advertised_version_of_every_api_has_a_codec() -> None:
    for handler in HANDLERS.values():
        for version in range(handler.versions.first, handler.versions.last + 1):
            assert version in handler.api.request.versions
            assert version in handler.api.response.versions
