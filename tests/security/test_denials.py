"""The words of authorisation errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.client.net.errors import error_from
from equipoise.client.security.config import SecurityConfig, SecurityProtocol
from equipoise.security.acls import AclOperation, ResourceType
from equipoise.security.denials import RESOURCE_OF, AclAction, AuthorizationError, on_cluster, on_group, on_topic
from equipoise.wire.errors import ErrorCode

READ = AclOperation.READ


def test_a_denial_names_the_operation_the_resource_the_principal_and_the_remedy() -> None:
    error = error_from(30, "no", on_topic(READ, "orders"), on_group(READ, "billing"), principal="User:alice")
    assert isinstance(error, AuthorizationError)
    assert error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert str(error) == (
        "no (GROUP_AUTHORIZATION_FAILED): User:alice needs READ on group billing; allow it with `equipoise acls add "
        "--allow-principal User:alice --operation Read --group billing` or kafka-acls"
    )


@pytest.mark.parametrize(
    ("action", "words", "options"),
    [
        (
            on_topic(AclOperation.DESCRIBE_CONFIGS, "a b"),
            "DESCRIBE_CONFIGS on topic a b",
            "DescribeConfigs --topic 'a b'",
        ),
        (on_cluster(AclOperation.ALTER), "ALTER on the cluster", "Alter --cluster"),
        (
            AclAction(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "tx"),
            "WRITE on transactional id tx",
            "Write --transactional-id tx",
        ),
    ],
)
def test_words_and_options(action: AclAction, words: str, options: str) -> None:
    assert str(action) == words
    assert action.command("").endswith(f"--allow-principal User:NAME --operation {options}")


def test_an_unknown_principal_and_an_unknown_action() -> None:
    assert "the principal of this client needs READ on topic t" in str(error_from(29, "no", on_topic(READ, "t")))
    assert str(error_from(31, "no", on_topic(READ, "t"))) == "no (CLUSTER_AUTHORIZATION_FAILED)"


def test_a_name_cannot_forge_a_line_or_a_command() -> None:
    message = str(error_from(29, "no", on_topic(READ, "t\n`rm`"), principal="User:$(x)"))
    assert "\n" not in message
    assert "'User:$(x)'" in message


def test_principals_that_a_client_knows() -> None:
    protocols = SecurityProtocol
    assert SecurityConfig().principal == "User:ANONYMOUS"
    assert SecurityConfig(protocol=protocols.SSL).principal == ""
    assert SecurityConfig(protocol=protocols.SASL_SSL, username="alice").principal == "User:alice"
    assert SecurityConfig(protocol=protocols.SASL_SSL, username="id", token_auth=True).principal == ""
    assert SecurityConfig(protocol=protocols.SASL_SSL, mechanism="OAUTHBEARER").principal == ""


def test_the_page_has_every_error() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    for error in RESOURCE_OF:
        assert f"| {error.value} {error.name} |" in page
