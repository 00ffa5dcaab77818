"""Listeners as they are configured: names, protocols, addresses, and the settings of each one.

A setting `listener.name.<name>.<setting>` is of one listener, `listener.name.<name>.<mechanism>.<setting>` of one
mechanism there. Both go before the setting without a prefix (ListenerName, DynamicBrokerConfig).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from equipoise.security.sasl.mechanisms import MECHANISMS
from equipoise.security.secrets import NO_SECRET, Secret
from equipoise.settings import INT_MAX, Rows, is_host, parse_values, rows_of, setting
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

PROTOCOLS = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PREFIX = "listener.name."
_EVERYWHERE = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """The settings that each listener may have for itself. docs/broker-security.md lists them."""

    ssl_keystore_location: str = setting("", "The broker's key and certificates: a PEM or PKCS12 file.")
    ssl_keystore_type: str = setting("JKS", "PEM, PKCS12 or JKS. The file's bytes decide.", in_capitals=True)
    ssl_keystore_password: Secret = setting(NO_SECRET, "Password of the keystore.")
    ssl_keystore_certificate_chain: str = setting("", "The broker's certificate and its chain as PEM text.")
    ssl_keystore_key: Secret = setting(NO_SECRET, "The broker's private key as PEM text.")
    ssl_certificate_location: str = setting("", "The broker's certificate and its chain: a PEM file.")
    ssl_key_location: str = setting("", "The broker's private key: a PEM file.")
    ssl_key_password: Secret = setting(NO_SECRET, "Password of the private key.")
    ssl_truststore_location: str = setting("", "CA certificates of clients: a PEM, PKCS12 or JKS file.")
    ssl_truststore_type: str = setting("JKS", "PEM, PKCS12 or JKS. The file's bytes decide.", in_capitals=True)
    ssl_truststore_password: Secret = setting(NO_SECRET, "Password of the truststore.")
    ssl_truststore_certificates: str = setting("", "CA certificates of clients as PEM text.")
    ssl_ca_location: str = setting("", "CA certificates of clients: a PEM file.")
    ssl_client_auth: str = setting(
        "none", "Whether clients show a certificate.", choices=("none", "requested", "required")
    )
    ssl_cipher_suites: str = setting("", "Ciphers of TLS 1.2: OpenSSL's names with colons, or IANA's with commas.")
    ssl_enabled_protocols: str = setting("TLSv1.2,TLSv1.3", "Versions of TLS.", list_of=("TLSv1.2", "TLSv1.3"))
    ssl_principal_mapping_rules: str = setting(
        "DEFAULT", "Makes a principal of a certificate's subject: RULE:pattern/replacement/ with L or U, or DEFAULT."
    )
    sasl_enabled_mechanisms: str = setting("", "Mechanisms that clients may use.", list_of=MECHANISMS)
    sasl_jaas_config: Secret = setting(NO_SECRET, 'Users of PLAIN: PlainLoginModule required user_alice="...";')
    sasl_server_max_receive_size: int = setting(524_288, "Largest frame before authentication.", 1, INT_MAX)
    connections_max_reauth_ms: int = setting(0, "Time after which a client authenticates again; 0: never.", 0)
    sasl_oauthbearer_jwks_endpoint_url: str = setting("", "The issuer's public keys: an https, http or file URL.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(3_600_000, "Time after which they are read again.", 1)
    sasl_oauthbearer_expected_issuer: str = setting("", "The issuer that a token must name.")
    sasl_oauthbearer_expected_audience: str = setting("", "Audiences, with commas; a token must name one.")
    sasl_oauthbearer_allow_unverified_issuer: bool = setting(False, "Whether any issuer will do.")
    sasl_oauthbearer_allow_unverified_audience: bool = setting(False, "Whether any audience will do.")
    sasl_oauthbearer_clock_skew_seconds: int = setting(30, "Difference of clocks that is forgiven.", 0, INT_MAX)
    sasl_oauthbearer_sub_claim_name: str = setting("sub", "The claim that names the principal.")
    sasl_oauthbearer_unsecured: bool = setting(
        False, "For tests: tokens without a signature are accepted. Anyone can then be anybody."
    )
    max_connections_per_ip: int = setting(INT_MAX, "Most connections of one address.", 0, INT_MAX)


class Endpoint(NamedTuple):
    """NAME://HOST:PORT."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ConfiguredListener:
    """A listener before it is opened."""

    name: str
    protocol: str
    host: str
    port: int
    advertised: tuple[str, int] | None = None
    config: ListenerConfig = field(default_factory=ListenerConfig)
    of_mechanisms: tuple[tuple[str, ListenerConfig], ...] = ()  # where a mechanism has settings of its own
    max_connections: int = INT_MAX

    @property
    def uses_tls(self) -> bool:
        """Whether its connections begin with a TLS handshake."""
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether its clients log in."""
        return self.protocol.startswith("SASL")

    def of_mechanism(self, mechanism: str) -> ListenerConfig:
        """The settings that hold for one mechanism."""
        return dict(self.of_mechanisms).get(mechanism, self.config)

    @property
    def mechanisms(self) -> list[str]:
        """sasl.enabled.mechanisms."""
        return [name for name in self.config.sasl_enabled_mechanisms.split(",") if name]


def listener_rows() -> Rows:
    """Every setting of a listener by its Kafka name."""
    return rows_of(ListenerConfig)


def split_settings(settings: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """The settings of the broker, and those of its listeners."""
    known = listener_rows()
    of_listeners = {name: value for name, value in settings.items() if name in known or name.startswith(PREFIX)}
    return {name: value for name, value in settings.items() if name not in of_listeners}, of_listeners


class ListenerTexts(NamedTuple):
    """The three lists of the broker's settings."""

    listeners: str
    advertised: str
    protocols: str  # listener.security.protocol.map


def parse_listeners(
    texts: ListenerTexts, settings: Mapping[str, object], other_names: Iterable[str], document: str
) -> tuple[ConfiguredListener, ...]:
    """UsageError names the listener or the setting at fault. Without `listeners` there is one, opened by `--listen`."""
    endpoints = [parse_endpoint(text) for text in _words(texts.listeners)] or [Endpoint("PLAINTEXT", "", 0)]
    _check_unique(endpoints)
    protocols = _parse_protocols(texts.protocols)
    advertised = _parse_advertised(texts.advertised, endpoints, by_name=bool(texts.listeners))
    own = _prefixed(settings, [endpoint.name for endpoint in endpoints])
    common = {name: value for name, value in settings.items() if not name.startswith(PREFIX)}
    made = []
    for endpoint in endpoints:
        if endpoint.name not in protocols:
            raise UsageError(
                f"listeners: {endpoint.name} has no protocol: give it one in listener.security.protocol.map"
            )
        parts = _Parts(common, own.get(endpoint.name.lower(), {}), other_names, document)
        made.append(_configured(endpoint, protocols[endpoint.name], advertised.get(endpoint.name), parts))
    return tuple(made)


class _Parts(NamedTuple):
    common: dict[str, object]
    own: dict[str, object]  # without the listener's prefix
    other_names: Iterable[str]
    document: str

    def config(self, more: Mapping[str, object]) -> ListenerConfig:
        own = {name: value for name, value in self.own.items() if name in listener_rows()}
        given = self.common | own | dict(more)
        return ListenerConfig(**parse_values(given, listener_rows(), self.other_names, self.document))


def _configured(
    endpoint: Endpoint, protocol: str, advertised: tuple[str, int] | None, parts: _Parts
) -> ConfiguredListener:
    known, limit = listener_rows(), INT_MAX
    of_mechanisms: dict[str, dict[str, object]] = {}
    for name, value in parts.own.items():
        mechanism, _, rest = name.partition(".")
        if name == "max.connections":
            limit = int(str(value))
        elif mechanism.upper() in MECHANISMS and rest in known:
            of_mechanisms.setdefault(mechanism.upper(), {})[rest] = value
        elif name not in known:
            parse_values({name: value}, known, parts.other_names, parts.document)
    if protocol.startswith("SASL_SSL") and "ssl.client.auth" in parts.common and "ssl.client.auth" not in parts.own:
        log.warning("ssl.client.auth holds on a SASL_SSL listener with the listener's prefix only; it is ignored")
        parts = parts._replace(common={k: v for k, v in parts.common.items() if k != "ssl.client.auth"})
    found = ConfiguredListener(
        endpoint.name,
        protocol,
        endpoint.host,
        endpoint.port,
        advertised,
        parts.config({}),
        tuple((mechanism, parts.config(more)) for mechanism, more in of_mechanisms.items()),
        limit,
    )
    if found.uses_sasl and not found.mechanisms:
        raise UsageError(f"listener {found.name}: say sasl.enabled.mechanisms: {', '.join(MECHANISMS)}")
    return found


def parse_endpoint(text: str) -> Endpoint:
    """NAME://HOST:PORT; the name in capitals (ListenerName)."""
    found = re.fullmatch(r"(\w[\w.-]*)://(.*):(\d{1,5})", text)
    if found is None or int(found[3]) > 65535 or (found[2] and not is_host(found[2].strip("[]"))):
        raise UsageError(f"{text!r} is no listener: write NAME://HOST:PORT, for instance SASL_SSL://0.0.0.0:9093")
    return Endpoint(found[1].upper(), found[2].strip("[]"), int(found[3]))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _check_unique(endpoints: list[Endpoint]) -> None:
    """Each name once, and each port once, but for IPv4 beside IPv6 (SocketServerConfigs)."""
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise UsageError("listeners: each listener must have a name of its own")
    ports: dict[tuple[int, int], str] = {}
    for endpoint in endpoints:
        family = 6 if ":" in endpoint.host else 4
        if endpoint.port and (family, endpoint.port) in ports:
            raise UsageError(f"listeners: each listener must have a port of its own, and {endpoint.port} stands twice")
        ports[family, endpoint.port] = endpoint.name


def _parse_protocols(text: str) -> dict[str, str]:
    found = {name: name for name in PROTOCOLS} if not text else {}
    for word in _words(text):
        name, _, protocol = word.partition(":")
        if protocol.strip().upper() not in PROTOCOLS:
            raise UsageError(f"listener.security.protocol.map: {word!r}: write NAME:{'|'.join(PROTOCOLS)}")
        found[name.strip().upper()] = protocol.strip().upper()
    return found


def _parse_advertised(text: str, endpoints: list[Endpoint], *, by_name: bool) -> dict[str, tuple[str, int]]:
    """Addresses by the listener's name. One address without a name is of the only listener."""
    found = {}
    for word in _words(text):
        if not by_name or ("://" not in word and len(endpoints) == 1):
            word = f"{endpoints[0].name}://{word.rpartition('://')[2]}"
        endpoint = parse_endpoint(word)
        if endpoint.name not in {known.name for known in endpoints}:
            raise UsageError(f"advertised.listeners: there is no listener {endpoint.name}")
        if endpoint.host in _EVERYWHERE:
            raise UsageError(f"advertised.listeners: {word}: clients cannot connect to this address: name a host")
        found[endpoint.name] = endpoint.host, endpoint.port
    return found


def _prefixed(settings: Mapping[str, object], names: list[str]) -> dict[str, dict[str, object]]:
    """The settings with a prefix, by the listener's name in small letters."""
    found: dict[str, dict[str, object]] = {}
    for full, value in settings.items():
        if full.startswith(PREFIX):
            rest = full.removeprefix(PREFIX)
            name = next((name.lower() for name in names if rest.startswith(name.lower() + ".")), None)
            if name is None:
                raise UsageError(f"{full}: there is no such listener; they are {', '.join(names)}")
            found.setdefault(name, {})[rest[len(name) + 1 :]] = value
    return found
