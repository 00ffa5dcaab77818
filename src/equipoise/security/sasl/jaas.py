"""sasl.jaas.config: one entry of a JAAS file, `module flag key=value ... ;`, read as Kafka reads it (JaasConfig).

Words are letters, digits and . - _ $; any other value is quoted with " or ', with the escapes of C. Comments are those
of Java, outside quotes. Errors name the column, never the text: passwords are in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from equipoise.security.secrets import Secret
from equipoise.wire.errors import UsageError

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""(?P<skipped>[\x00-\x20]+|//[^\r\n]*|/\*.*?\*/)
    |(?P<word>[\w.$-]+)
    |(?P<quoted>"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*')
    |(?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class LoginModule(NamedTuple):
    """An entry: the class, and its options, any of which may be a secret."""

    name: str  # the last part of the class: Databricks puts kafkashaded. before it
    options: Mapping[str, Secret]

    def option(self, name: str) -> str:
        """An option that is no secret; empty if it is not given."""
        return self.options[name].reveal() if name in self.options else ""

    def secret(self, name: str) -> Secret:
        """An option that is a secret; empty if it is not given."""
        return self.options.get(name, Secret())


class _Token(NamedTuple):
    kind: str  # word, quoted, sign or end
    text: str
    column: int


def parse_jaas(text: str, setting: str = "sasl.jaas.config") -> LoginModule:
    """The entry. UsageError names the setting and the column."""
    tokens = _Tokens(text, setting)
    module = tokens.take("word", "the class of a login module")
    flag = tokens.take("word", "the flag `required`")
    if flag.text.lower() not in _FLAGS:
        tokens.refuse(flag, "the flag must be one of required, requisite, sufficient and optional")
    options: dict[str, Secret] = {}
    while tokens.next.text != ";" or tokens.next.kind != "sign":
        if tokens.next.kind == "end":
            tokens.refuse(tokens.next, "the entry must end with ;")
        key = tokens.take("word", "the name of an option, or ; at the end")
        tokens.take("sign", "= after the name of an option", "=")
        if tokens.next.kind not in ("word", "quoted"):
            tokens.refuse(tokens.next, "a value is missing: a word, or text in quotes")
        options[key.text] = Secret(tokens.advance().text)
    tokens.advance()
    if tokens.next.kind != "end":
        tokens.refuse(tokens.next, "there must be one entry only")
    return LoginModule(module.text.rpartition(".")[2], options)


class _Tokens:
    def __init__(self, text: str, setting: str) -> None:
        self._setting = setting
        self._coming = self._scan(text)
        self.next = next(self._coming)

    def advance(self) -> _Token:
        taken = self.next
        self.next = next(self._coming, taken)
        return taken

    def take(self, kind: str, wanted: str, text: str | None = None) -> _Token:
        if self.next.kind != kind or text not in (None, self.next.text):
            self.refuse(self.next, f"{wanted} is wanted here")
        return self.advance()

    def refuse(self, at: _Token, why: str) -> None:
        raise UsageError(f"{self._setting}, column {at.column}: {why}")

    def _scan(self, text: str) -> Iterator[_Token]:
        pos = 0
        while pos < len(text):
            found = _TOKEN.match(text, pos)
            if found is None or found.lastgroup is None:
                at = _Token("", "", pos + 1)
                if text[pos] in "\"'":
                    self.refuse(at, "the quoted value is not closed")
                self.refuse(at, "a value with this character must be in quotes")
                return
            if found.lastgroup != "skipped":
                token = found[0]
                yield _Token(found.lastgroup, _unquoted(token) if found.lastgroup == "quoted" else token, pos + 1)
            pos = found.end()
        yield _Token("end", "", len(text) + 1)


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(_escaped, text[1:-1])


def _escaped(found: re.Match[str]) -> str:
    letters = found[1]
    return chr(int(letters, 8)) if letters.isdigit() and letters[0] < "8" else _CONTROL.get(letters, letters)
