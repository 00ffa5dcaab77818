"""DescribeUserScramCredentials and AlterUserScramCredentials on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.security.session import Session
from equipoise.wire.apis.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from equipoise.wire.apis.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest
from equipoise.wire.errors import ErrorCode
from tests.broker.conftest import Connect, Start
from tests.broker.rawclient import RawClient
from tests.security.test_credentials import deletion, upsertion

ALL = DescribeUserScramCredentialsRequest(users=None)


def alter(client: RawClient, *, delete: list[Any] | None = None, put: list[Any] | None = None) -> list[tuple[str, int]]:
    request = AlterUserScramCredentialsRequest(deletions=delete or [], upsertions=put or [])
    return [(one.user, one.error_code) for one in client.call(request).results]


def described(client: RawClient) -> dict[str, list[tuple[int, int]]]:
    answer = client.call(ALL)
    assert answer.error_code == ErrorCode.NONE
    return {one.user: [(info.mechanism, info.iterations) for info in one.credential_infos] for one in answer.results}


def test_credentials_from_their_beginning_to_their_end(client: RawClient) -> None:
    assert described(client) == {}
    assert alter(client, put=[upsertion("alice"), upsertion("bob", 2, 8192)]) == [("alice", 0), ("bob", 0)]
    assert alter(client, put=[upsertion("alice", 2, 5000)]) == [("alice", 0)]
    assert described(client) == {"alice": [(1, 4096), (2, 5000)], "bob": [(2, 8192)]}
    assert alter(client, delete=[deletion("alice", 1), deletion("bob", 1)]) == [
        ("alice", 0),
        ("bob", ErrorCode.RESOURCE_NOT_FOUND),
    ]
    assert described(client) == {"alice": [(2, 5000)], "bob": [(2, 8192)]}


def test_a_restart_keeps_them(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(data=tmp_path)
    alter(connect(broker), put=[upsertion("alice"), upsertion("bob")])
    alter(connect(broker), delete=[deletion("bob")])
    broker.stop()
    broker.start()
    assert described(connect(broker)) == {"alice": [(1, 4096)]}


def test_many_requests_in_flight_are_answered_in_their_order(start: Start, connect: Connect, tmp_path: Path) -> None:
    """Each waits for the disk, and sees what those before it have changed."""
    client = connect(start(data=tmp_path))
    for _ in range(20):
        client.send(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion("alice")]))
        client.send(AlterUserScramCredentialsRequest(deletions=[deletion("alice")], upsertions=[]))
    codes = [client.receive().results[0].error_code for _ in range(40)]
    assert codes == [ErrorCode.NONE] * 40
    assert described(client) == {}


@pytest.mark.parametrize("allowed", [None, AclOperation.DESCRIBE, AclOperation.ALTER])
def test_both_need_a_right_on_the_cluster(start: Start, connect: Connect, allowed: AclOperation | None) -> None:
    def authorizer(session: Session, operation: AclOperation, resource: Resource) -> bool:
        return resource.type is ResourceType.CLUSTER and operation is allowed

    def code(operation: AclOperation) -> ErrorCode:
        return ErrorCode.NONE if operation is allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    client = connect(start(authorizer=authorizer))
    answer = client.call(ALL)
    assert (answer.error_code, answer.results) == (code(AclOperation.DESCRIBE), [])
    if allowed is not AclOperation.DESCRIBE:
        named = client.call(DescribeUserScramCredentialsRequest(users=[UserName(name="alice")]))
        assert [(row.user, row.error_code) for row in named.results] == [("", code(AclOperation.DESCRIBE))]
    put = [upsertion("alice"), upsertion("alice"), upsertion("bob")]
    assert alter(client, put=put) == (
        [("bob", ErrorCode.NONE), ("alice", ErrorCode.DUPLICATE_RESOURCE)]
        if allowed is AclOperation.ALTER
        else [("alice", code(AclOperation.ALTER)), ("bob", code(AclOperation.ALTER))]
    )


def test_one_request_does_not_hold_the_loop_for_long(client: RawClient) -> None:
    """Each credential takes some ten microseconds; Kafka has such a bound for quotas and ACLs."""
    assert {code for _, code in alter(client, put=[upsertion(f"u{number}") for number in range(10_001)])} == {
        ErrorCode.POLICY_VIOLATION
    }
    assert described(client) == {}
