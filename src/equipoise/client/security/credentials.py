"""What a client logs in with: from sasl.* settings and sasl.jaas.config to one mechanism and its credentials.

A setting goes before the same option of the login module (KIP-1139). Where both name a user, they must agree.
"""

from __future__ import annotations

import os
import re
from dataclasses import fields
from typing import Any, NoReturn

from equipoise.client.security.assertions import JWT_BEARER
from equipoise.client.security.config import AssertionConfig, KerberosConfig, OAuthConfig
from equipoise.client.security.settings import SecuritySettings
from equipoise.security.sasl.jaas import LoginModule, parse_jaas
from equipoise.security.secrets import NO_SECRET, Secret
from equipoise.wire.errors import UsageError

AWS_MSK_IAM = "AWS_MSK_IAM"
MECHANISMS = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", AWS_MSK_IAM, "GSSAPI"
_SCRAM = "SCRAM-SHA-256", "SCRAM-SHA-512"
# Which mechanisms a login module serves.
_MODULES = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": _SCRAM,
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
    "IAMLoginModule": (AWS_MSK_IAM,),
    "Krb5LoginModule": ("GSSAPI",),
}
# Java classes that users paste, and that can be honoured.
_OIDC_HANDLER = "OAuthBearerLoginCallbackHandler"
_IAM_HANDLER = "IAMClientCallbackHandler"
_JWT_BEARER_RETRIEVER = "JwtBearerJwtRetriever"
_RETRIEVERS = _JWT_BEARER_RETRIEVER, "ClientCredentialsJwtRetriever", "DefaultJwtRetriever", "FileJwtRetriever"
_AWS_OPTIONS = {
    "awsProfileName": "profile",
    "awsRoleArn": "role_arn",
    "awsRoleSessionName": "session_name",
    "awsStsRegion": "sts_region",
}
_AWS_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.com")
_EXTENSION = "extension_"
_CLAIM = re.compile(r"unsecuredLogin(?:String|Number|List)Claim_(.+)")
_NO_LOGIN = LoginModule("", {})


def login_of(parsed: SecuritySettings, bootstrap_servers: str) -> dict[str, Any]:
    """The fields of SecurityConfig that SASL needs. UsageError names the setting at fault."""
    module = parse_jaas(parsed.sasl_jaas_config.reveal()) if parsed.sasl_jaas_config else _NO_LOGIN
    _check_classes(parsed)
    mechanism = _mechanism(parsed, module)
    if mechanism == "GSSAPI":
        return {"mechanism": mechanism, "kerberos": _kerberos(parsed, module)}
    if mechanism == AWS_MSK_IAM or (mechanism == "OAUTHBEARER" and parsed.sasl_oauthbearer_method == "aws_msk_iam"):
        return {"mechanism": "OAUTHBEARER", "oauth": _aws(parsed, module, bootstrap_servers)}
    if mechanism == "OAUTHBEARER":
        return {"mechanism": mechanism, "oauth": _oauth(parsed, module)}
    return {"mechanism": mechanism, **_user(parsed, module)}


# -- the mechanism


def _mechanism(parsed: SecuritySettings, module: LoginModule) -> str:
    """Without a mechanism Java and librdkafka take GSSAPI, which nobody with a password means."""
    named = parsed.sasl_mechanism
    if module.name and module.name not in _MODULES:
        _refuse_java("sasl.jaas.config", module.name)
    if named is None:
        return _implied(parsed, module)
    if "," in named:
        raise UsageError(f"sasl.mechanism={named}: name one mechanism only")
    if named not in MECHANISMS:
        raise UsageError(f"sasl.mechanism={named}: must be one of {', '.join(MECHANISMS)}")
    if module.name and named not in _MODULES[module.name]:
        raise UsageError(
            f"sasl.mechanism={named} and {module.name} in sasl.jaas.config do not go together: "
            f"set sasl.mechanism={' or '.join(_MODULES[module.name])}, or {_module_of(named)}"
        )
    return named


def _implied(parsed: SecuritySettings, module: LoginModule) -> str:
    fitting = _MODULES.get(module.name, ())
    if len(fitting) == 1:
        return fitting[0]
    if fitting or parsed.sasl_username or parsed.sasl_password:
        raise UsageError(f"sasl.mechanism is missing: say {' or '.join(fitting) or 'PLAIN, ' + ' or '.join(_SCRAM)}")
    if parsed.sasl_oauthbearer_callback is not None or parsed.sasl_oauthbearer_token_endpoint_url:
        raise UsageError("sasl.mechanism is missing: say OAUTHBEARER")
    return "GSSAPI"


def _module_of(mechanism: str) -> str:
    return f"use {next(module for module, served in _MODULES.items() if mechanism in served)}"


def _refuse_java(setting: str, name: str) -> NoReturn:
    raise UsageError(
        f"{setting}: {name} is Java code, which cannot run in Python: for tokens of your own give a function as "
        "sasl.oauthbearer.callback (oauth_cb)"
    )


def _check_classes(parsed: SecuritySettings) -> None:
    for setting, given, known in (
        ("sasl.login.callback.handler.class", parsed.sasl_login_callback_handler_class, (_OIDC_HANDLER, _IAM_HANDLER)),
        ("sasl.client.callback.handler.class", parsed.sasl_client_callback_handler_class, (_IAM_HANDLER,)),
        ("sasl.oauthbearer.jwt.retriever.class", parsed.sasl_oauthbearer_jwt_retriever_class, _RETRIEVERS),
    ):
        name = given.rpartition(".")[2]
        if name and name not in known:
            _refuse_java(setting, name)


# -- PLAIN and SCRAM


def _user(parsed: SecuritySettings, module: LoginModule) -> dict[str, Any]:
    username, password = parsed.sasl_username or module.option("username"), parsed.sasl_password
    if parsed.sasl_username and module.option("username") not in ("", parsed.sasl_username):
        raise UsageError("sasl.username and the username in sasl.jaas.config are not the same: leave one out")
    if password and module.secret("password") not in (NO_SECRET, password):
        raise UsageError("sasl.password and the password in sasl.jaas.config are not the same: leave one out")
    password = password or module.secret("password")
    if not username or not password:
        missing = "password" if username else "username"
        raise UsageError(f'sasl.{missing} is missing: give it, or sasl.jaas.config with {missing}="..."')
    return {
        "username": username,
        "password": password,
        "token_auth": module.option("tokenauth").lower() == "true",
    }


# -- OAUTHBEARER


def _oauth(parsed: SecuritySettings, module: LoginModule) -> OAuthConfig:
    claims = tuple((found[1], module.option(name)) for name in module.options if (found := _CLAIM.fullmatch(name)))
    extensions = {
        name.removeprefix(_EXTENSION): module.option(name) for name in module.options if name.startswith(_EXTENSION)
    }
    extensions |= _pairs("sasl.oauthbearer.extensions", parsed.sasl_oauthbearer_extensions)
    return _shared(
        parsed,
        method=_method(parsed, bool(claims)),
        config=parsed.sasl_oauthbearer_config,
        client_id=parsed.sasl_oauthbearer_client_id or module.option("clientId"),
        client_secret=parsed.sasl_oauthbearer_client_secret or module.secret("clientSecret"),
        assertion=_assertion(parsed),
        scope=parsed.sasl_oauthbearer_scope or module.option("scope"),
        extensions=tuple(extensions.items()),
        unsecured_claims=claims,
    )


def _assertion(parsed: SecuritySettings) -> AssertionConfig | None:
    """In place of id and secret, where the grant is jwt-bearer (JwtBearerJwtRetriever)."""
    grants = parsed.sasl_oauthbearer_grant_type, parsed.sasl_oauthbearer_jwt_retriever_class.rpartition(".")[2]
    if JWT_BEARER not in grants and _JWT_BEARER_RETRIEVER not in grants:
        return None
    prefix = "sasl_oauthbearer_assertion_"
    found = {row.name.removeprefix(prefix): getattr(parsed, row.name) for row in fields(parsed) if prefix in row.name}
    assertion = AssertionConfig(**{name.removeprefix("claim_"): value for name, value in found.items()})
    if not (assertion.file or assertion.private_key_file or assertion.private_key_pem):
        raise UsageError(
            "the grant jwt-bearer needs sasl.oauthbearer.assertion.private.key.file, .private.key.pem, or "
            "sasl.oauthbearer.assertion.file"
        )
    return assertion


def _method(parsed: SecuritySettings, has_claims: bool) -> str:
    """For Java a token endpoint means OIDC; librdkafka has sasl.oauthbearer.method."""
    method, endpoint = parsed.sasl_oauthbearer_method, parsed.sasl_oauthbearer_token_endpoint_url
    if parsed.sasl_oauthbearer_callback is not None:
        return "default"
    if endpoint:
        return "oidc"
    if method == "oidc" or parsed.sasl_login_callback_handler_class:
        raise UsageError("sasl.oauthbearer.token.endpoint.url is missing: OIDC gets its tokens there")
    if parsed.enable_sasl_oauthbearer_unsecure_jwt:
        return "unsecured"
    hint = "; for tokens without a signature set enable.sasl.oauthbearer.unsecure.jwt=true" if has_claims else ""
    raise UsageError(
        "OAUTHBEARER needs a source of tokens: give sasl.oauthbearer.callback (oauth_cb), "
        f"or sasl.oauthbearer.token.endpoint.url with client.id and client.secret{hint}"
    )


def _shared(parsed: SecuritySettings, **more: Any) -> OAuthConfig:
    """With the settings https.* and sasl.login.*, which are taken as they are."""
    prefixed = ((row.name, prefix + row.name) for row in fields(OAuthConfig) for prefix in ("", "sasl_login_"))
    return OAuthConfig(
        callback=parsed.sasl_oauthbearer_callback,
        token_endpoint_url=parsed.sasl_oauthbearer_token_endpoint_url,
        header_urlencode=parsed.sasl_oauthbearer_header_urlencode,
        **{name: getattr(parsed, setting) for name, setting in prefixed if hasattr(parsed, setting)},
        **more,
    )


def _aws(parsed: SecuritySettings, module: LoginModule, bootstrap_servers: str) -> OAuthConfig:
    """AWS_MSK_IAM of Java is OAUTHBEARER on the same port, with a token that AWS's signer makes."""
    found = _pairs("sasl.oauthbearer.config", parsed.sasl_oauthbearer_config.reveal())
    named = {ours: module.option(option) for option, ours in _AWS_OPTIONS.items() if module.option(option)}
    host = _AWS_HOST.search(bootstrap_servers)
    region = host[1] if host else os.environ.get("AWS_REGION", "")
    config = ({"region": region} if region else {}) | named | found
    text = ",".join(f"{name}={value}" for name, value in config.items())
    return _shared(parsed, method="aws_msk_iam", config=Secret(text))


def _pairs(setting: str, text: str) -> dict[str, str]:
    """`a=b,c=d`. The text may be a secret: errors name the setting only."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = (piece.strip() for piece in part.partition("="))
        if not separator or not key:
            raise UsageError(f"{setting}: write name=value, separated by commas")
        found[key] = value
    return found


# -- GSSAPI


def _kerberos(parsed: SecuritySettings, module: LoginModule) -> KerberosConfig:
    return KerberosConfig(
        service_name=module.option("serviceName") or parsed.sasl_kerberos_service_name,
        principal=parsed.sasl_kerberos_principal or module.option("principal"),
        keytab=parsed.sasl_kerberos_keytab or module.option("keyTab"),
    )
