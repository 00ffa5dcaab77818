"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) as Kafka speaks them: messages, keys and proofs.

Both sides of the exchange use this module:

    client-first   n,,n=user,r=<client nonce>
    server-first   r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    client-final   c=biws,r=<both nonces>,p=<proof>
    server-final   v=<server signature>      or  e=<error>

Names and passwords are UTF-8 as they are: neither Kafka nor its clients apply SASLprep (ScramFormatter.normalize).
Nonces come from the caller.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from typing import NamedTuple

from equipoise.wire.errors import ProtocolError

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4096  # for both mechanisms (ScramMechanism)
CHANNEL_BINDING = b"n,,"  # the GS2 header: the client does not bind to the TLS channel

# As Kafka takes them (ScramMessages): names and values are ASCII without NUL.
_SASLNAME = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2B\x2D-\x7E]+"
_VALUE = r"[\x01-\x2B\x2D-\x7F]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"((?:,[A-Za-z]+={_VALUE})*)"
_CLIENT_FIRST = re.compile(rf"n,(?:a=({_SASLNAME}))?,((?:m={_VALUE},)?n=({_SASLNAME}),r=({_PRINTABLE}){_EXTENSIONS})")
_SERVER_FIRST = re.compile(rf"(m={_VALUE},)?r=({_PRINTABLE}),s=({_BASE64}),i=([0-9]{{1,10}}){_EXTENSIONS}")
_CLIENT_FINAL = re.compile(rf"(c=({_BASE64}),r=({_PRINTABLE}){_EXTENSIONS}),p=({_BASE64})")
_SERVER_FINAL = re.compile(rf"(?:e=([\x01-\x2B\x2D-\x3C\x3E-\x7F]+)|v=({_BASE64})){_EXTENSIONS}")


class ScramMessageError(ProtocolError):
    """The peer's message is none of SCRAM. The text names the message and does not quote it."""


# -- names


def escaped(name: str) -> str:
    """A user name as a saslname (RFC 5802, 5.1): the equals sign first, or it would be escaped twice."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(saslname: str) -> str:
    """The user name of a saslname."""
    return saslname.replace("=2C", ",").replace("=3D", "=")


# -- messages


class ClientFirst(NamedTuple):
    """The first message of the client. `bare` is the part that both sides sign."""

    username: str
    nonce: str
    extensions: str  # with a leading comma: ",tokenauth=true"
    authorization_id: str
    bare: bytes

    @classmethod
    def make(cls, username: str, nonce: str, *, tokenauth: bool = False) -> ClientFirst:
        """`tokenauth`: the name and the password are those of a delegation token (KIP-48)."""
        extensions = ",tokenauth=true" if tokenauth else ""
        return cls(username, nonce, extensions, "", f"n={escaped(username)},r={nonce}{extensions}".encode())

    @classmethod
    def parse(cls, message: bytes) -> ClientFirst:
        """ScramMessageError: it is none."""
        found = _matched(_CLIENT_FIRST, message, "client-first")
        authorization_id, bare, name, nonce, extensions = found.groups()
        return cls(unescaped(name), nonce, extensions, unescaped(authorization_id or ""), bare.encode())

    def encode(self) -> bytes:
        """As it is sent."""
        return CHANNEL_BINDING + self.bare

    @property
    def is_tokenauth(self) -> bool:
        """Whether the credentials are those of a delegation token."""
        return "tokenauth=true" in self.extensions.split(",")


class ServerFirst(NamedTuple):
    """What the server says of the user's credential."""

    nonce: str  # the client's, and the server's behind it
    salt: bytes
    iterations: int

    @classmethod
    def parse(cls, message: bytes) -> ServerFirst:
        """ScramMessageError: it is none, or it has an extension that must be understood and is not."""
        found = _matched(_SERVER_FIRST, message, "server-first")
        mandatory, nonce, salt, iterations, _ = found.groups()
        if mandatory is not None:
            raise ScramMessageError("the SCRAM server-first message has a mandatory extension, which is not known")
        return cls(nonce, b64decode(salt), int(iterations))

    def encode(self) -> bytes:
        """As it is sent."""
        return f"r={self.nonce},s={_text(self.salt)},i={self.iterations}".encode()


class ClientFinal(NamedTuple):
    """The client's proof. `without_proof` is the part that both sides sign."""

    channel_binding: bytes
    nonce: str
    proof: bytes
    without_proof: bytes

    @classmethod
    def parse(cls, message: bytes) -> ClientFinal:
        """ScramMessageError: it is none."""
        without_proof, binding, nonce, _, proof = _matched(_CLIENT_FINAL, message, "client-final").groups()
        return cls(b64decode(binding), nonce, b64decode(proof), without_proof.encode())

    def encode(self) -> bytes:
        """As it is sent."""
        return self.without_proof + b",p=" + b64encode(self.proof)


class ServerFinal(NamedTuple):
    """The server's signature, or its error."""

    signature: bytes
    error: str = ""

    @classmethod
    def parse(cls, message: bytes) -> ServerFinal:
        """ScramMessageError: it is none."""
        error, signature, _ = _matched(_SERVER_FINAL, message, "server-final").groups()
        return cls(b64decode(signature or ""), error or "")

    def encode(self) -> bytes:
        """As it is sent."""
        return f"e={self.error}".encode() if self.error else b"v=" + b64encode(self.signature)


def without_proof(nonce: str) -> bytes:
    """The client-final message up to its proof."""
    return b"c=" + b64encode(CHANNEL_BINDING) + b",r=" + nonce.encode()


def auth_message(client_first_bare: bytes, server_first: bytes, client_final_without_proof: bytes) -> bytes:
    """What both sides sign: the messages byte for byte as they were sent."""
    return b",".join((client_first_bare, server_first, client_final_without_proof))


# -- keys and proofs


class ScramCredential(NamedTuple):
    """What a server keeps of a user: the password cannot be had from it, nor a proof without the client's key."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ClientKeys(NamedTuple):
    """What a client signs with, and what it expects the server to sign with."""

    client_key: bytes
    stored_key: bytes
    server_key: bytes


def salted_password(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Hi() of RFC 5802. It takes long on purpose: about a millisecond for 4096 iterations."""
    return pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def client_keys(mechanism: str, salted: bytes) -> ClientKeys:
    """The keys that a salted password gives."""
    client_key = _hmac(mechanism, salted, b"Client Key")
    return ClientKeys(client_key, _hash(mechanism, client_key), _hmac(mechanism, salted, b"Server Key"))


def credential(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """What a server keeps of a salted password. AlterUserScramCredentials carries a salted password."""
    keys = client_keys(mechanism, salted)
    return ScramCredential(salt, keys.stored_key, keys.server_key, iterations)


def client_proof(mechanism: str, keys: ClientKeys, auth: bytes) -> bytes:
    """The proof that the client knows the password."""
    return _xor(keys.client_key, _hmac(mechanism, keys.stored_key, auth))


def server_signature(mechanism: str, server_key: bytes, auth: bytes) -> bytes:
    """The proof that the server knows the user's credential."""
    return _hmac(mechanism, server_key, auth)


def is_proof(mechanism: str, stored_key: bytes, proof: bytes, auth: bytes) -> bool:
    """Whether the client has the key whose hash is `stored_key` (ScramSaslServer.verifyClientProof).

    A proof of another length is compared in the same time."""
    signature = _hmac(mechanism, stored_key, auth)
    has_length = len(proof) == len(signature)
    key = _xor(proof if has_length else bytes(len(signature)), signature)
    return hmac.compare_digest(_hash(mechanism, key), stored_key) and has_length


def _hash(mechanism: str, data: bytes) -> bytes:
    return new_hash(HASHES[mechanism], data).digest()


def _hmac(mechanism: str, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, HASHES[mechanism])


def _xor(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left) ^ int.from_bytes(right)).to_bytes(len(right))


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _matched(pattern: re.Pattern[str], message: bytes, name: str) -> re.Match[str]:
    try:
        found = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise ScramMessageError(f"{len(message)} bytes came where SCRAM's {name} message was expected")
    return found
