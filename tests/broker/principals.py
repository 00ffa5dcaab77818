"""Connections that are served as a given principal, and ACLs over the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.server import Server
from equipoise.security.acls import Acl, AclFilter
from equipoise.wire.apis.k30_create_acls import AclCreation, CreateAclsRequest
from equipoise.wire.apis.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.broker.calls import SOMEBODY
from tests.broker.conftest import Connect
from tests.broker.rawclient import RawClient

ADMIN = "User:admin"
GUARDED: dict[str, object] = {"authorizer.class.name": "acl", "super.users": ADMIN}
As = Callable[[Broker, str], RawClient]


@pytest.fixture
def as_principal(connect: Connect) -> As:
    """`as_principal(broker, "User:alice")` gives a client that is served as alice."""

    def connect_as(broker: Broker, principal: str) -> RawClient:
        client = connect(broker)
        client.call(SOMEBODY)

        def become(server: Server) -> None:
            (found,) = [one for one in server.connections if port_of(one) == client.port]
            found.session = replace(found.session, principal=principal)

        broker.call(become)
        return client

    return connect_as


def port_of(connection: Any) -> int:
    return int(connection._transport.get_extra_info("peername")[1])


def creation(acl: Acl) -> AclCreation:
    return AclCreation(
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        resource_pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def add_acls(client: RawClient, *acls: Acl) -> list[int]:
    answer = client.call(CreateAclsRequest(creations=[creation(acl) for acl in acls]))
    return [row.error_code for row in answer.results]


def remove_acls(client: RawClient, *wanted: AclFilter) -> Any:
    filters = [
        DeleteAclsFilter(
            resource_type_filter=one.resource_type,
            resource_name_filter=one.name,
            pattern_type_filter=one.pattern_type,
            principal_filter=one.principal,
            host_filter=one.host,
            operation=one.operation,
            permission_type=one.permission_type,
        )
        for one in wanted
    ]
    return client.call(DeleteAclsRequest(filters=filters)).filter_results
