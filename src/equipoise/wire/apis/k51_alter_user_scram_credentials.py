"""AlterUserScramCredentials (51): sets and removes users' credentials (KIP-554). The password itself never travels."""

from __future__ import annotations

from equipoise.wire.schema import Message, Struct, field


class ScramCredentialDeletion(Struct):
    name: str = field("string")
    mechanism: int = field("int8")


class ScramCredentialUpsertion(Struct):
    name: str = field("string")
    mechanism: int = field("int8")
    iterations: int = field("int32")
    salt: bytes = field("bytes")
    salted_password: bytes = field("bytes")


class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+", ignore_rest=True):
    """librdkafka sends a byte more than the message has."""

    deletions: list[ScramCredentialDeletion] = field([ScramCredentialDeletion])
    upsertions: list[ScramCredentialUpsertion] = field([ScramCredentialUpsertion])


class AlterUserScramCredentialsResult(Struct):
    user: str = field("string")
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)


class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    results: list[AlterUserScramCredentialsResult] = field([AlterUserScramCredentialsResult])
