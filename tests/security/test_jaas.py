"""sasl.jaas.config, read as Kafka's JaasConfig reads it. Errors name a column and show nothing of the text."""

from __future__ import annotations

import pytest

from equipoise.security.sasl.jaas import LoginModule, parse_jaas
from equipoise.wire.errors import UsageError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    return {name: value.reveal() for name, value in parse_jaas(text).options.items()}


def test_an_entry_has_a_module_and_options() -> None:
    module = parse_jaas(f'{PLAIN} required username="alice" password="s3kr1t";')
    assert (module.name, module.option("username"), module.secret("password").reveal()) == (
        "PlainLoginModule",
        "alice",
        "s3kr1t",
    )
    assert module.option("serviceName") == ""
    assert not module.secret("clientSecret")
    assert "s3kr1t" not in repr(module)


def test_the_last_part_of_the_class_decides() -> None:
    assert parse_jaas(f"kafkashaded.{PLAIN} required;").name == "PlainLoginModule"
    assert parse_jaas("M required ;") == LoginModule("M", {})


@pytest.mark.parametrize("flag", ["required", "REQUIRED", "requisite", "Sufficient", "optional"])
def test_every_flag_is_taken_in_any_case(flag: str) -> None:
    assert options(f"M {flag} a=b;") == {"a": "b"}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("word", "word"),
        ("a.b-c_d$e", "a.b-c_d$e"),
        ("12345", "12345"),  # Java refuses an unquoted number
        ('"$ConnectionString"', "$ConnectionString"),
        ("'single'", "single"),
        ('''"it's"''', "it's"),
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', r"a\b"),
        (r'"tab\tline\nend"', "tab\tline\nend"),
        (r'"\101\60"', "A0"),
        (r'"\q\8"', "q8"),
        ('"Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKey=k=;x"', None),  # Event Hubs
        ('"/* no comment */"', None),
        ('"a=b;c // d"', None),
        ('""', ""),
    ],
)
def test_values(written: str, value: str | None) -> None:
    assert options(f"M required v={written};") == {"v": written[1:-1] if value is None else value}


def test_comments_and_line_ends_are_skipped() -> None:
    text = """M /* the module */ required // its flag
        username = "a"   /* one
        over lines */ password="b"
    ; // the end"""
    assert options(text) == {"username": "a", "password": "b"}


@pytest.mark.parametrize(
    ("text", "column", "why"),
    [
        ("", 1, "the class of a login module"),
        ("M", 2, "the flag"),
        ("M always;", 3, "the flag must be one of"),
        ("M required", 11, "must end with ;"),
        ('M required password="s3kr1t"', 29, "must end with ;"),
        ("M required password;", 20, "= after the name"),
        ("M required password=;", 21, "a value is missing"),
        ("M required password==s3kr1t;", 21, "a value is missing"),
        ('M required password="s3kr1t', 21, "is not closed"),
        ('M required password="s3k\nr1t";', 21, "is not closed"),
        ("M required password=s3k@r1t;", 24, "must be in quotes"),
        ("M required password=s3k/r1t;", 24, "must be in quotes"),
        ('M required "s3kr1t"=b;', 12, "the name of an option"),
        ("M required a=b; N required c=d;", 17, "one entry only"),
        ("M required a=b;;", 16, "one entry only"),
    ],
)
def test_an_error_names_the_column_and_shows_nothing(text: str, column: int, why: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_jaas(text)
    said = str(raised.value)
    assert said.startswith(f"sasl.jaas.config, column {column}: ")
    assert why in said
    assert "s3k" not in said


def test_an_error_names_the_setting() -> None:
    with pytest.raises(UsageError, match=r"^listener\.name\.x, column 1: "):
        parse_jaas("", "listener.name.x")
