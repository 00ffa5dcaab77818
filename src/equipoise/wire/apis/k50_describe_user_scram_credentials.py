"""DescribeUserScramCredentials (50): mechanisms and iterations of users' credentials, never the keys (KIP-554)."""

from __future__ import annotations

from equipoise.wire.apis.common import Throttled, WithError
from equipoise.wire.schema import Message, Struct, field


class UserName(Struct):
    name: str = field("string")


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions="0", flexible="0+"):
    """`users` of null, or empty, asks for all."""

    users: list[UserName] | None = field([UserName], nullable=True)


class CredentialInfo(Struct):
    mechanism: int = field("int8")
    iterations: int = field("int32")


class ScramUserResult(Struct, shared=True):
    """The answer about one user."""

    user: str = field("string")
    error_code: int = field("int16")
    error_message: str | None = field("string", nullable=True, default=None)


class DescribeUserScramCredentialsResult(ScramUserResult):
    credential_infos: list[CredentialInfo] = field([CredentialInfo])


class DescribeUserScramCredentialsResponse(Throttled, WithError, Message, api_key=50, versions="0", flexible="0+"):
    results: list[DescribeUserScramCredentialsResult] = field([DescribeUserScramCredentialsResult])
