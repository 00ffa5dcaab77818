"""PEM text: its blocks, found as Java finds them.

Java takes PEM on one line, with blanks for line ends (DefaultSslEngineFactory.PemParser). OpenSSL needs lines. Text
from an environment variable may have the two letters \\n for a line end.
"""

from __future__ import annotations

import re
from base64 import b64encode
from textwrap import wrap
from typing import NamedTuple

_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
CERTIFICATES = "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"


class Block(NamedTuple):
    """One object. The text of a private key is as secret as the key."""

    label: str
    text: str


def blocks(text: str) -> list[Block]:
    """Every object of the text, in lines of 64 letters. Headers, as old encrypted keys have them, stay as they are."""
    found = []
    for label, body in _BLOCK.findall(text.replace("\\n", "\n")):
        lines = body.strip() if ":" in body else "\n".join(wrap("".join(body.split()), 64))
        found.append(Block(label, f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"))
    return found


def certificates(text: str) -> str:
    """The certificates alone; empty: there are none."""
    return "".join(block.text for block in blocks(text) if block.label in CERTIFICATES)


def private_keys(text: str) -> list[str]:
    """The private keys alone, encrypted or not."""
    return [block.text for block in blocks(text) if block.label.endswith("PRIVATE KEY")]


def certificate_text(der: bytes) -> str:
    """A certificate as PEM."""
    return (
        f"-----BEGIN CERTIFICATE-----\n{chr(10).join(wrap(b64encode(der).decode(), 64))}\n-----END CERTIFICATE-----\n"
    )
