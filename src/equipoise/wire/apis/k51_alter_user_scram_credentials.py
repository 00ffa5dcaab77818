"""AlterUserScramCredentials (51): sets and removes users' credentials (KIP-554). The password itself never travels."""

from __future__ import annotations

from equipoise.wire.apis.common import Named, Throttled
from equipoise.wire.apis.k50_describe_user_scram_credentials import ScramUserResult
from equipoise.wire.schema import Message, field


class ScramCredentialDeletion(Named):
    mechanism: int = field("int8")


class ScramCredentialUpsertion(Named):
    mechanism: int = field("int8")
    iterations: int = field("int32")
    salt: bytes = field("bytes")
    salted_password: bytes = field("bytes")


class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+", ignore_rest=True):
    """librdkafka sends a byte more than the message has."""

    deletions: list[ScramCredentialDeletion] = field([ScramCredentialDeletion])
    upsertions: list[ScramCredentialUpsertion] = field([ScramCredentialUpsertion])


class AlterUserScramCredentialsResult(ScramUserResult):
    """One user's answer, whatever the request says of the user."""


class AlterUserScramCredentialsResponse(Throttled, Message, api_key=51, versions="0", flexible="0+"):
    results: list[AlterUserScramCredentialsResult] = field([AlterUserScramCredentialsResult])
