"""The principal of mutual TLS: the subject of a certificate as Java prints it, and `ssl.principal.mapping.rules`.

Access rules name such a principal as `User:CN=app,OU=billing,O=Example`. So the text must equal Java's to the letter
(X500Principal, AVA): a rule copied from Kafka must match here too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from equipoise.wire.errors import UsageError

_SEQUENCE, _SET, _OID = 0x30, 0x31, 0x06
_VERSION = 0xA0  # a certificate of version 1 has none
_KEYWORDS = {  # those of RFC 2253 and UID; Java prints all others as numbers
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_TEXTS = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E)  # UTF8, Printable, T61, IA5, General, Universal, BMP
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANKS = " \r"


class NoMatchingRule(Exception):
    """No rule applies to the name: the connection must not be served, not even as anonymous."""


# -- the subject


class _Value(NamedTuple):
    """A value in DER: its tag, its content, and both with the length."""

    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER, most specific part first: `CN=app,O=Example`."""
    parts = list(_values(_content(_content(certificate))))
    subject = parts[5 if parts[0].tag == _VERSION else 4]
    names = ["+".join(map(_attribute, _values(part.content))) for part in _values(subject.content)]
    return ",".join(reversed(names))


def _values(data: bytes) -> Iterator[_Value]:
    start = 0
    while start < len(data):
        length, pos = data[start + 1], start + 2
        if length & 0x80:
            size = length & 0x7F
            length, pos = int.from_bytes(data[pos : pos + size], "big"), pos + size
        yield _Value(data[start], data[pos : pos + length], data[start : pos + length])
        start = pos + length


def _content(data: bytes) -> bytes:
    return next(_values(data)).content


def _attribute(attribute: _Value) -> str:
    """AVA: a type without keyword, or a value that is no text, is written in hexadecimal."""
    oid, value = _values(attribute.content)
    number = _dotted(oid.content)
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or number}=#{value.whole.hex()}"
    return f"{keyword}={_escape(value.content.decode('utf-8', 'replace'))}"


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escape(text: str) -> str:
    escaped = "".join("\\" + c if c in _ESCAPED else "\\00" if c == "\0" else c for c in text)
    inner = escaped.strip(_BLANKS)
    lead = len(escaped) - len(escaped.lstrip(_BLANKS))
    before, after = escaped[:lead], escaped[lead + len(inner) :]
    return "".join("\\" + c for c in before) + inner + "".join("\\" + c for c in after)


# -- the mapping

_RULE = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None  # None: DEFAULT, the name as it is
    replacement: str = ""
    case: str = ""  # L, U or empty

    def apply(self, name: str) -> str | None:
        """SslPrincipalMapper: the pattern decides by the whole name, then each match is replaced."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(self._expand, name)
        return {"L": result.lower, "U": result.upper}.get(self.case, lambda: result)()

    def _expand(self, match: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda reference: _resolve(reference, match), self.replacement)


def _resolve(reference: re.Match[str], match: re.Match[str]) -> str:
    """A reference to more groups than there are loses digits, as in Java, and then stands for itself."""
    escaped, digits = reference.groups()
    if escaped is not None:
        return str(escaped)
    groups, used = match.re.groups, len(digits)
    while int(digits[:used]) > groups and used > 1:
        used -= 1
    if int(digits[:used]) > groups:
        return reference.group()
    return (match.group(int(digits[:used])) or "") + digits[used:]


class PrincipalMapper:
    """`ssl.principal.mapping.rules`: `RULE:pattern/replacement/[L|U]` and `DEFAULT`, the first that applies."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules = list(_parse_rules(rules.strip()))

    def principal_of(self, certificate: bytes) -> str:
        """`User:` and the mapped subject. NoMatchingRule: none applies."""
        return "User:" + self.map(subject_of(certificate))

    def map(self, name: str) -> str:
        """The name by the first rule that applies (SslPrincipalMapper)."""
        for rule in self._rules:
            mapped = rule.apply(name)
            if mapped is not None:
                return mapped
        raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules applies to {name!r}")


def _parse_rules(text: str) -> Iterator[_Rule]:
    pos = 0
    while pos < len(text):
        found = _RULE.match(text, pos)
        end = found.end() if found else pos
        rest = text[end:].lstrip()
        if found is None or (rest and not rest.startswith(",")):
            raise UsageError(f"ssl.principal.mapping.rules: {text[pos:]!r} is no rule: {_SYNTAX}")
        yield _rule(found)
        pos = len(text) - len(rest[1:].lstrip())


_SYNTAX = "write DEFAULT or RULE:pattern/replacement/ with L or U behind it"


def _rule(found: re.Match[str]) -> _Rule:
    default, pattern, replacement, case = found.groups()
    if default:
        return _Rule(None)
    if "&&" in pattern or "\\p" in pattern or "\\P" in pattern:  # Python's re has neither
        raise UsageError(f"ssl.principal.mapping.rules: {pattern!r}: && and \\p are not supported in patterns")
    try:
        return _Rule(re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern)), replacement, case)
    except re.error as error:
        raise UsageError(f"ssl.principal.mapping.rules: {pattern!r}: {error}") from None
