"""Users that a broker has from its first start on, in the words of `kafka-storage format --add-scram` (KIP-900)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from equipoise.security.credentials import MAX_ITERATIONS, scram_record
from equipoise.security.sasl.scram import HASHES, MIN_ITERATIONS, salted_password
from equipoise.security.secrets import Secret
from equipoise.security.state import ScramMechanism
from equipoise.wire.errors import UsageError
from equipoise.wire.security_records import SecurityRecord

_EXAMPLE = "SCRAM-SHA-256=[name=admin,password=...], or @FILE with such lines"
_FORM = re.compile(rf"({'|'.join(HASHES)})=\[(.*)\]")
_PART = re.compile(r'(name|password|iterations)=("[^"]*"|[^,]*)(?:,|$)')
_SALT_BYTES = 32


class FirstUser(NamedTuple):
    """A user to be added, unless it is there already."""

    name: str
    mechanism: ScramMechanism
    password: Secret
    iterations: int

    def record(self) -> SecurityRecord:
        """What the broker keeps of it."""
        salt, name = secrets.token_bytes(_SALT_BYTES), self.mechanism.mechanism_name
        salted = salted_password(name, self.password.reveal().encode(), salt, self.iterations)
        return scram_record(self.name, self.mechanism, salted, salt=salt, iterations=self.iterations)


def parse_first_users(texts: Sequence[str]) -> list[FirstUser]:
    """UsageError says what is wrong, and never quotes the text: it has a password."""
    return [_parse(line) for text in texts for line in _lines(text)]


def _lines(text: str) -> Iterator[str]:
    if not text.startswith("@"):
        yield text
        return
    for line in Path(text[1:]).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.strip()


def _parse(text: str) -> FirstUser:
    form = _FORM.fullmatch(text)
    if form is None:
        raise UsageError(f"--add-scram: write {_EXAMPLE}")
    parts = {found[1]: found[2].strip('"') for found in _PART.finditer(form[2])}
    if _PART.sub("", form[2]) or not parts.get("name") or not parts.get("password"):
        raise UsageError(f"--add-scram: name and password are needed, iterations are allowed: write {_EXAMPLE}")
    iterations = parts.get("iterations", str(MIN_ITERATIONS))
    if not iterations.isdigit() or not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise UsageError(f"--add-scram: iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    mechanism = ScramMechanism[form[1].replace("-", "_")]
    return FirstUser(parts["name"], mechanism, Secret(parts["password"]), int(iterations))
