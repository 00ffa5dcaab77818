"""The table of all settings of TLS and SASL, and their twins in other clients.

docs/security.md lists them all; its tables are made from the rows below. The canonical name of a setting is the name of
the Java client or of librdkafka; `TWINS` has the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from equipoise.security.secrets import NO_SECRET, Secret
from equipoise.settings import INT_MAX, Rows, rows_of, setting
from equipoise.wire.errors import UsageError

DOCUMENT = "docs/security.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """What was given, by row."""

    security_protocol: str = setting(
        "PLAINTEXT",
        "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, in capitals or not.",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        in_capitals=True,
    )
    ssl_ca_location: str = setting("", "CA certificates: a PEM file or a directory; `probe`: the system's places.")
    ssl_ca_pem: str = setting("", "CA certificates as PEM text.")
    ssl_truststore_location: str = setting("", "CA certificates: a PEM, PKCS12 or JKS file.")
    ssl_truststore_type: str = setting("JKS", "PEM, PKCS12 or JKS. The file's bytes decide.", in_capitals=True)
    ssl_truststore_password: Secret = setting(
        NO_SECRET, "Password of the truststore. Without it its integrity is not checked."
    )
    ssl_certificate_location: str = setting("", "The client's certificate and its chain: a PEM file.")
    ssl_certificate_pem: str = setting("", "The client's certificate and its chain as PEM text.")
    ssl_key_location: str = setting("", "The client's private key: a PEM file.")
    ssl_key_pem: Secret = setting(NO_SECRET, "The client's private key as PEM text.")
    ssl_key_password: Secret = setting(NO_SECRET, "Password of the private key, also of one inside a keystore.")
    ssl_keystore_location: str = setting("", "The client's key and certificates: a PEM or PKCS12 file.")
    ssl_keystore_type: str = setting("JKS", "PEM, PKCS12 or JKS. The file's bytes decide.", in_capitals=True)
    ssl_keystore_password: Secret = setting(NO_SECRET, "Password of the keystore.")
    ssl_endpoint_identification_algorithm: str = setting(
        "https", "https: the certificate must have the broker's host name. Empty or none: any name will do."
    )
    enable_ssl_certificate_verification: bool = setting(
        True, "false: any certificate will do, of any host. Anyone can then pose as the broker."
    )
    ssl_crl_location: str = setting("", "Revoked certificates: a PEM file with CRLs of the broker's CA.")
    ssl_cipher_suites: str = setting("", "Ciphers of TLS 1.2: OpenSSL's names with colons, or IANA's with commas.")
    ssl_enabled_protocols: str = setting("TLSv1.2,TLSv1.3", "Versions of TLS.", list_of=("TLSv1.2", "TLSv1.3"))
    ssl_context: object = setting(None, "A context of Python's own, instead of all other ssl.* settings.", as_is=True)
    sasl_mechanism: str | None = setting(
        None,
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM; GSSAPI is not offered yet.",
        in_capitals=True,
    )
    sasl_username: str = setting("", "User of PLAIN and SCRAM.")
    sasl_password: Secret = setting(NO_SECRET, "Password of PLAIN and SCRAM.")
    sasl_jaas_config: Secret = setting(NO_SECRET, "User and password as Java has them: a login module and its options.")
    sasl_login_callback_handler_class: str = setting("", "Java's classes for OIDC and AWS only; others are Java code.")
    sasl_client_callback_handler_class: str = setting("", "Java's class for AWS only; others are Java code.")
    sasl_kerberos_service_name: str = setting("kafka", "GSSAPI: the brokers' service name.")
    sasl_kerberos_principal: str = setting("", "GSSAPI: the client's principal.")
    sasl_kerberos_keytab: str = setting("", "GSSAPI: the client's keytab.")
    sasl_oauthbearer_method: str = setting(
        "default", "default (a callback), oidc or aws_msk_iam.", choices=("default", "oidc", "aws_msk_iam")
    )
    sasl_oauthbearer_callback: object = setting(
        None, "A function that returns (token, expiry), an object with token(), or `module:name` of either.", as_is=True
    )
    sasl_oauthbearer_config: Secret = setting(
        NO_SECRET, "Text for the callback; with aws_msk_iam `region=...,profile=...`."
    )
    sasl_oauthbearer_token_endpoint_url: str = setting("", "OIDC: the token endpoint, https or file.")
    sasl_oauthbearer_client_id: str = setting("", "OIDC: the client's id.")
    sasl_oauthbearer_client_secret: Secret = setting(NO_SECRET, "OIDC: the client's secret.")
    sasl_oauthbearer_scope: str = setting("", "OIDC: the scope that is asked for.")
    sasl_oauthbearer_grant_type: str = setting(
        "client_credentials",
        "OIDC: client_credentials (id and secret), or urn:ietf:params:oauth:grant-type:jwt-bearer (an assertion).",
        choices=("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
    )
    sasl_oauthbearer_jwt_retriever_class: str = setting("", "Java's JwtBearerJwtRetriever means the grant jwt-bearer.")
    sasl_oauthbearer_assertion_algorithm: str = setting(
        "RS256", "Algorithm of the assertion's signature.", choices=("RS256", "ES256")
    )
    sasl_oauthbearer_assertion_private_key_file: str = setting("", "Key that signs the assertion: a PEM file.")
    sasl_oauthbearer_assertion_private_key_pem: Secret = setting(NO_SECRET, "The same key as PEM text.")
    sasl_oauthbearer_assertion_private_key_passphrase: Secret = setting(NO_SECRET, "Passphrase of this key.")
    sasl_oauthbearer_assertion_file: str = setting("", "A file with the assertion, signed elsewhere; read each time.")
    sasl_oauthbearer_assertion_claim_aud: str = setting("", "Claim `aud` of the assertion.")
    sasl_oauthbearer_assertion_claim_iss: str = setting("", "Claim `iss` of the assertion.")
    sasl_oauthbearer_assertion_claim_sub: str = setting("", "Claim `sub` of the assertion.")
    sasl_oauthbearer_assertion_claim_exp_seconds: int = setting(300, "Life of the assertion.", 1, 86_400)
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = setting(60, "Time before now from which it is valid.", 0, 3600)
    sasl_oauthbearer_assertion_claim_jti_include: bool = setting(False, "Whether each assertion has an id of its own.")
    sasl_oauthbearer_extensions: str = setting("", "SASL extensions: `logicalCluster=lkc-1,identityPoolId=pool-1`.")
    sasl_oauthbearer_header_urlencode: bool = setting(False, "OIDC: whether id and secret are URL-encoded.")
    enable_sasl_oauthbearer_unsecure_jwt: bool = setting(False, "Tokens without a signature, for tests.")
    https_ca_location: str = setting("", "CA certificates of the token endpoint: a PEM file or a directory.")
    https_ca_pem: str = setting("", "CA certificates of the token endpoint as PEM text.")
    sasl_login_refresh_window_factor: float = setting(0.8, "Part of a token's life after which it is renewed.", 0, 1)
    sasl_login_refresh_window_jitter: float = setting(0.05, "Random part of a token's life added to it.", 0, 1)
    sasl_login_refresh_min_period_seconds: int = setting(60, "Least time between two tokens.", 0, 900)
    sasl_login_refresh_buffer_seconds: int = setting(300, "Time before a token's end, for its renewal.", 0, 3600)
    sasl_login_connect_timeout_ms: int = setting(10_000, "Time limit of connecting to the token endpoint.", 1, INT_MAX)
    sasl_login_read_timeout_ms: int = setting(10_000, "Time limit of the token endpoint's answer.", 1, INT_MAX)
    sasl_login_retry_backoff_ms: int = setting(100, "Pause after the token endpoint's first failure.", 0)
    sasl_login_retry_backoff_max_ms: int = setting(10_000, "Longest pause between two attempts.", 0)


# Other names of the same settings. Those of kafka-python and aiokafka have underscores there.
TWINS = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "oauth_cb": "sasl.oauthbearer.callback",
    "oauth.cb": "sasl.oauthbearer.callback",
    "ssl.cafile": "ssl.ca.location",
    "ssl.certfile": "ssl.certificate.location",
    "ssl.keyfile": "ssl.key.location",
    "ssl.password": "ssl.key.password",
    "ssl.crlfile": "ssl.crl.location",
    "ssl.ciphers": "ssl.cipher.suites",
    "ssl.check.hostname": "ssl.endpoint.identification.algorithm",
    "sasl.plain.username": "sasl.username",
    "sasl.plain.password": "sasl.password",
    "sasl.kerberos.name": "sasl.kerberos.principal",
    "sasl.oauth.token.provider": "sasl.oauthbearer.callback",
}
# Java's and librdkafka's settings that mean nothing to OpenSSL, or to tickets that another program renews.
WITHOUT_EFFECT = (
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "security.providers",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
_FAMILIES = ("enable.sasl.", "enable.ssl.", "https.", "oauth", "sasl.", "security.", "ssl.")


def rows() -> Rows:
    """Every setting by its canonical name, in the order of the table."""
    return rows_of(SecuritySettings)


def known_names() -> list[str]:
    """All names that are accepted."""
    return [*rows(), *TWINS, *WITHOUT_EFFECT]


def is_secret(name: str) -> bool:
    """Whether the value of this setting, under any of its names, must not be shown."""
    row = rows().get(TWINS.get(name, name))
    return row is not None and isinstance(row.default, Secret)


def split(settings: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """The settings of security, and all others."""
    mine = {name: value for name, value in settings.items() if name.startswith(_FAMILIES)}
    return mine, {name: value for name, value in settings.items() if name not in mine}


def canonical(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings under their canonical names. Two names of one setting must have the same value."""
    found: dict[str, object] = {}
    said_by: dict[str, str] = {}
    for name, value in settings.items():
        row = TWINS.get(name, name)
        if row.endswith(".class") and row not in rows():
            raise UsageError(f"{name}: a Java class cannot run in Python: leave it out")
        value = _translated(name, value)
        if row in found and found[row] != value:
            raise UsageError(f"{said_by[row]} and {name} are the same setting, with two values: leave one out")
        found[row], said_by[row] = value, name
    return {name: value for name, value in found.items() if name not in WITHOUT_EFFECT}


def _translated(name: str, value: object) -> object:
    """kafka-python has a truth value for what Java calls an algorithm."""
    if name != "ssl.check.hostname":
        return value
    word = str(value).strip().lower()
    if word not in ("true", "false"):
        raise UsageError(f"{name}={value}: must be true or false")
    return "https" if word == "true" else "none"
