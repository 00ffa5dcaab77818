"""Settings of TLS and SASL in the words of four clients: Java, librdkafka, Spark's options, kafka-python."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from equipoise.client.consumer.config import ConsumerConfig
from equipoise.client.producer.config import ProducerConfig
from equipoise.client.security.config import PLAINTEXT, AssertionConfig, SecurityConfig, SecurityProtocol
from equipoise.client.security.parsing import parse_security, security_from_keywords
from equipoise.client.security.settings import TWINS, WITHOUT_EFFECT, rows
from equipoise.security.secrets import Secret
from equipoise.wire.errors import UsageError

SECRET = "s3kr1t"
SASL = {"security.protocol": "SASL_SSL"}
USER = {"sasl.username": "alice", "sasl.password": SECRET}
PLAIN_MODULE = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{SECRET}";'
SCRAM_MODULE = PLAIN_MODULE.replace("plain.Plain", "scram.Scram")
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
IAM_MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"
OIDC_HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
IAM_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
ENDPOINT = {"sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token"}


def refusal(settings: dict[str, object], servers: str = "") -> str:
    with pytest.raises(UsageError) as raised:
        parse_security(settings, servers)
    assert SECRET not in str(raised.value)
    return str(raised.value)


def token() -> tuple[str, float]:
    return "t", 0.0


# -- the table


def test_the_default_is_plain_text() -> None:
    assert parse_security({}) is PLAINTEXT
    assert not PLAINTEXT.uses_tls
    assert not PLAINTEXT.uses_sasl
    assert ConsumerConfig.from_keywords(bootstrap_servers="a:1").security is PLAINTEXT


@pytest.mark.parametrize(
    ("word", "tls", "sasl"),
    [("plaintext", False, False), ("ssl", True, False), ("Sasl_Plaintext", False, True), ("SASL_SSL", True, True)],
)
def test_protocols_in_any_case(word: str, tls: bool, sasl: bool) -> None:
    config = parse_security({"security.protocol": word, "sasl.mechanism": "plain", **USER})
    assert (config.protocol, config.uses_tls, config.uses_sasl) == (SecurityProtocol(word.upper()), tls, sasl)


def test_every_twin_is_the_setting_it_stands_for() -> None:
    assert set(TWINS.values()) <= rows().keys()
    assert not rows().keys() & TWINS.keys()
    assert not rows().keys() & set(WITHOUT_EFFECT)


def test_four_dialects_say_the_same() -> None:
    java = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": SCRAM_MODULE,
        "ssl.truststore.certificates": "pem",
        "ssl.endpoint.identification.algorithm": "",
    }
    librdkafka = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        **USER,
        "ssl.ca.pem": "pem",
        "ssl.endpoint.identification.algorithm": "none",
    }
    expected = parse_security(java)
    assert expected == parse_security(librdkafka)
    assert expected == security_from_keywords(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="alice",
        sasl_plain_password=SECRET,
        ssl_ca_pem="pem",
        ssl_check_hostname=False,
    )
    servers = {"bootstrap.servers": "a:1"}
    assert ConsumerConfig.parse(servers | librdkafka).security == expected
    assert ProducerConfig.parse(servers | java).security == expected
    assert (expected.mechanism, expected.username, expected.password) == ("SCRAM-SHA-512", "alice", Secret(SECRET))


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_settings_that_mean_nothing_here_are_accepted(name: str) -> None:
    assert parse_security({name: "x"}) == PLAINTEXT


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("ssl.ca.locaton", "ssl.ca.location"),
        ("sasl.pasword", "sasl.password"),
        ("security.protocoll", "security.protocol"),
        ("ssl.truststore.file", "ssl.truststore.type"),
        ("sasl.jaas", "sasl.jaas.config"),
    ],
)
def test_nonsense_is_refused_with_the_nearest_match(name: str, suggestion: str) -> None:
    assert refusal({name: SECRET}) == f"unknown setting {name!r}; did you mean {suggestion!r}?"
    with pytest.raises(UsageError, match=f"did you mean '{suggestion}'"):
        ConsumerConfig.parse({"bootstrap.servers": "a:1", name: "x"})


def test_a_near_miss_of_the_family_is_told_too() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'sasl\.username'"):
        ConsumerConfig.parse({"bootstrap.servers": "a:1", "sas.username": "x"})


# -- contradictions


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ssl.ca.pem": "a", "ssl.truststore.certificates": "b"}, "ssl.ca.pem and ssl.truststore.certificates are the"),
        ({"sasl.password": SECRET, "sasl.plain.password": "x"}, "sasl.password and sasl.plain.password are the same"),
        ({"security.protocol": "SSL", "ssl.ca.pem": "a", "ssl.ca.location": "b"}, "ssl.ca.pem and ssl.ca.location are"),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "a", "ssl.truststore.location": "b"},
            "ssl.ca.location and ssl.truststore.location are given",
        ),
        (
            {"security.protocol": "SSL", "ssl.certificate.location": "a", "ssl.keystore.location": "b"},
            "ssl.certificate.location and ssl.keystore.location are given",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "a", "ssl.key.pem": SECRET},
            "ssl.key.pem and ssl.keystore.location are given",
        ),
        ({"security.protocol": "SSL", "ssl.key.pem": SECRET}, "ssl.key.pem needs ssl.certificate.location or .pem"),
        ({"security.protocol": "SSL", "ssl.certificate.pem": "a"}, "ssl.certificate.pem needs ssl.key.pem or"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "http"},
            "ssl.endpoint.identification.algorithm=http: must be https, none or empty",
        ),
        ({"ssl.check.hostname": "maybe"}, "ssl.check.hostname=maybe: must be true or false"),
        ({**SASL, **USER}, "sasl.mechanism is missing: say PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({**SASL, "sasl.jaas.config": SCRAM_MODULE}, "sasl.mechanism is missing: say SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({**SASL, **ENDPOINT}, "sasl.mechanism is missing: say OAUTHBEARER"),
        ({**SASL, **USER, "sasl.mechanisms": "PLAIN,GSSAPI"}, "sasl.mechanism=PLAIN,GSSAPI: name one mechanism only"),
        ({**SASL, **USER, "sasl.mechanism": "DIGEST-MD5"}, "sasl.mechanism=DIGEST-MD5: must be one of PLAIN, SCRAM-"),
        ({**SASL, "sasl.mechanism": "PLAIN"}, "sasl.username is missing"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.username": "alice"}, "sasl.password is missing"),
        (
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_MODULE, "sasl.username": "bob"},
            "sasl.username and the username in sasl.jaas.config are not the same",
        ),
        (
            {**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_MODULE, "sasl.password": "other"},
            "sasl.password and the password in sasl.jaas.config are not the same",
        ),
        (
            {**SASL, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": PLAIN_MODULE},
            "sasl.mechanism=SCRAM-SHA-512 and PlainLoginModule in sasl.jaas.config do not go together: "
            "set sasl.mechanism=PLAIN, or use ScramLoginModule",
        ),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_MODULE[:-1]}, "sasl.jaas.config, column"),
        (
            {**SASL, "sasl.jaas.config": f'com.example.Own required password="{SECRET}";'},
            "sasl.jaas.config: Own is Java code",
        ),
        ({**SASL, **USER, "sasl.login.callback.handler.class": "a.B"}, "sasl.login.callback.handler.class: B is Java"),
        ({"ssl.engine.factory.class": "a.B"}, "ssl.engine.factory.class: a Java class cannot run in Python"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs a source of tokens"),
        (
            {**SASL, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"},
            "sasl.oauthbearer.token.endpoint.url is missing",
        ),
        (
            {**SASL, "sasl.mechanism": "OAUTHBEARER", **ENDPOINT, "sasl.oauthbearer.extensions": SECRET},
            "sasl.oauthbearer.extensions: write name=value",
        ),
        ({**SASL, "sasl.password": "{{secrets/kafka/password}}"}, "sasl.password: the secret was not resolved"),
        (
            {**SASL, "sasl.jaas.config": PLAIN_MODULE.replace(SECRET, "{{secrets/a/b}}")},
            "sasl.jaas.config: the secret was not resolved",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(settings: dict[str, object], said: str) -> None:
    assert refusal(settings).startswith(said)


def test_two_names_with_one_value_are_fine() -> None:
    given = {**SASL, **USER, "sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN", "sasl.plain.username": "alice"}
    assert parse_security(given).username == "alice"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security.protocol": "SSL", **USER}, "sasl.password, sasl.username: no effect with security.protocol=SSL"),
        ({"ssl.ca.pem": "x", **USER}, "sasl.password, sasl.username, ssl.ca.pem: no effect with security.protocol=PLA"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", **USER, "ssl.ca.pem": "x"},
            "ssl.ca.pem: no effect with security.protocol=SASL_PLAINTEXT",
        ),
    ],
)
def test_what_has_no_effect_is_warned_about(
    settings: dict[str, object], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        parse_security(settings)
    assert caplog.messages[0].startswith(said)
    assert SECRET not in caplog.text


# -- logins


def test_a_login_module_says_the_mechanism_where_it_serves_one_only() -> None:
    config = parse_security({**SASL, "sasl.jaas.config": "kafkashaded." + PLAIN_MODULE})
    assert (config.mechanism, config.username, config.password.reveal()) == ("PLAIN", "alice", SECRET)


def test_a_delegation_token() -> None:
    module = SCRAM_MODULE.replace("required", "required tokenauth=true")
    config = parse_security({**SASL, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": module})
    assert config.token_auth
    assert not parse_security({**SASL, "sasl.mechanism": "SCRAM-SHA-256", **USER}).token_auth


def test_event_hubs_as_its_users_paste_it() -> None:
    password = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=abc="
    module = PLAIN_MODULE.replace("alice", "$ConnectionString").replace(SECRET, password)
    config = parse_security({**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": module})
    assert (config.username, config.password.reveal()) == ("$ConnectionString", password)


def test_without_a_mechanism_and_a_password_it_is_gssapi() -> None:
    config = parse_security({**SASL, "sasl.kerberos.service.name": "broker", "sasl.kerberos.keytab": "/k"})
    assert (config.mechanism, config.kerberos.service_name, config.kerberos.keytab) == ("GSSAPI", "broker", "/k")
    module = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="me@R";'
    config = parse_security({**SASL, "sasl.mechanism": "GSSAPI", "sasl.jaas.config": module})
    assert (config.kerberos.keytab, config.kerberos.principal) == ("/k", "me@R")


def oauth(settings: dict[str, Any], servers: str = "") -> SecurityConfig:
    config = parse_security({**SASL, "sasl.mechanism": "OAUTHBEARER", **settings}, servers)
    assert config.mechanism == "OAUTHBEARER"
    return config


@pytest.mark.parametrize("handler", [OIDC_HANDLER, OIDC_HANDLER.replace("secured.", ""), ""])
def test_oidc_as_java_writes_it(handler: str) -> None:
    module = f'{OAUTH_MODULE} clientId="id" clientSecret="{SECRET}" scope="s" extension_logicalCluster="lkc-1";'
    settings = {**ENDPOINT, "sasl.jaas.config": module, "sasl.login.callback.handler.class": handler}
    found = oauth(settings).oauth
    assert (found.method, found.client_id, found.client_secret, found.scope) == ("oidc", "id", Secret(SECRET), "s")
    assert found.extensions == (("logicalCluster", "lkc-1"),)
    explicit = {"sasl.oauthbearer.client.credentials.client.id": "other", "sasl.oauthbearer.scope": "t"}
    found = oauth({**settings, **explicit}).oauth
    assert (found.client_id, found.client_secret, found.scope) == ("other", Secret(SECRET), "t")


def test_oidc_as_librdkafka_writes_it() -> None:
    found = oauth(
        {
            **ENDPOINT,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "id",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-1",
        }
    ).oauth
    assert (found.method, found.client_secret.reveal()) == ("oidc", SECRET)
    assert found.extensions == (("logicalCluster", "lkc-1"), ("identityPoolId", "pool-1"))


@pytest.mark.parametrize(
    "grant",
    [
        {"sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"},
        {"sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"},
    ],
)
def test_a_signed_assertion_as_librdkafka_and_java_write_it(grant: dict[str, str]) -> None:
    settings = {
        **ENDPOINT,
        **grant,
        "sasl.oauthbearer.assertion.algorithm": "ES256",
        "sasl.oauthbearer.assertion.private.key.pem": SECRET,
        "sasl.oauthbearer.assertion.claim.iss": "me",
        "sasl.oauthbearer.assertion.claim.exp.seconds": "60",
        "sasl.oauthbearer.assertion.claim.jti.include": "true",
    }
    found = oauth(settings).oauth.assertion
    assert found == AssertionConfig(
        algorithm="ES256", private_key_pem=Secret(SECRET), iss="me", exp_seconds=60, jti_include=True
    )
    assert SECRET not in repr(oauth(settings))
    del settings["sasl.oauthbearer.assertion.private.key.pem"]
    assert "the grant jwt-bearer needs" in refusal({**SASL, "sasl.mechanism": "OAUTHBEARER", **settings})
    assert oauth({**ENDPOINT, "sasl.oauthbearer.client.id": "me"}).oauth.assertion is None


@pytest.mark.parametrize("name", ["oauth_cb", "oauth.cb", "sasl.oauth.token.provider", "sasl.oauthbearer.callback"])
def test_a_callback_under_all_its_names(name: str) -> None:
    found = oauth({name: token, "sasl.oauthbearer.config": SECRET}).oauth
    assert (found.method, found.callback, found.config.reveal()) == ("default", token, SECRET)
    keywords: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    keywords[name.replace(".", "_")] = token
    assert security_from_keywords(**keywords).oauth.callback is token


def test_tokens_without_a_signature_only_if_it_is_said() -> None:
    settings = {"sasl.jaas.config": f'{OAUTH_MODULE} unsecuredLoginStringClaim_sub="alice";'}
    assert "enable.sasl.oauthbearer.unsecure.jwt=true" in refusal({**SASL, **settings})
    found = oauth({**settings, "enable.sasl.oauthbearer.unsecure.jwt": "true"}).oauth
    assert (found.method, found.unsecured_claims) == ("unsecured", (("sub", "alice"),))


def test_msk_iam_as_java_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    settings = {
        **SASL,
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f'{IAM_MODULE} awsProfileName="dev" awsDebugCreds=true;',
        "sasl.client.callback.handler.class": IAM_HANDLER,
    }
    config = parse_security(settings, "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com:9098,b-2.demo:9098")
    assert (config.mechanism, config.oauth.method) == ("OAUTHBEARER", "aws_msk_iam")
    assert config.oauth.config.reveal() == "region=eu-west-1,profile=dev"
    assert parse_security(settings, "proxy:9098").oauth.config.reveal() == "profile=dev"
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert parse_security(settings, "proxy:9098").oauth.config.reveal() == "region=eu-north-1,profile=dev"


def test_msk_iam_in_our_words() -> None:
    found = oauth({"sasl.oauthbearer.method": "aws_msk_iam", "sasl.oauthbearer.config": "region=eu-west-1"}).oauth
    assert (found.method, found.config.reveal()) == ("aws_msk_iam", "region=eu-west-1")


# -- secrets


def test_secrets_do_not_print_and_travel_in_pickles() -> None:
    given = {**SASL, **USER, "sasl.mechanism": "PLAIN", "ssl.certificate.pem": "c", "ssl.key.pem": SECRET}
    config = ConsumerConfig.parse({"bootstrap.servers": "a:1", **given, "ssl.key.password": SECRET})
    assert SECRET not in repr(config)
    assert SECRET not in str(config.security)
    copied = pickle.loads(pickle.dumps(config))
    assert copied == config
    assert hash(copied.security) == hash(config.security)
    assert copied.security.password.reveal() == SECRET


def test_the_rows_that_are_secrets() -> None:
    hidden = {name for name, row in rows().items() if isinstance(row.default, Secret)}
    assert hidden == {
        "sasl.password",
        "sasl.jaas.config",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.truststore.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    }
