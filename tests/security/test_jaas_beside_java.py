"""sasl.jaas.config beside Kafka's own parser (JaasConfig), text by text."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from equipoise.security.sasl.jaas import parse_jaas
from equipoise.wire.errors import UsageError
from proving.fetched import jars, java

JAVA = Path(__file__).parent / "JavaJaas.java"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
TEXTS = [
    f'{PLAIN} required username="alice" password="secret";',
    f"{PLAIN} required username='alice' password='secret';",
    f"{PLAIN} required username=alice password=secret;",
    f"{PLAIN} REQUIRED a=b;",
    f"{PLAIN} Requisite a=b;",
    f"{PLAIN} sufficient a=b;",
    f"{PLAIN} optional a=b;",
    f"{PLAIN} required;",
    f"{PLAIN} required ;",
    f"  {PLAIN}\trequired\n a = b\r\n ;  ",
    f"{PLAIN} /* the module */ required // the flag\n a=b;",
    f'{PLAIN} required a="/* no comment */" b="// none";',
    f"{PLAIN} required a=b; // behind it",
    f"{PLAIN} required a=b; /* behind it */",
    f'{PLAIN} required a="Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKey=k=";',
    f'{PLAIN} required a="$ConnectionString";',
    f"{PLAIN} required a=b.c-d_e$f;",
    f'{PLAIN} required a="it\'s" b=\'say "x"\';',
    f'{PLAIN} required a="a\\"b" b="a\\\\b";',
    f'{PLAIN} required a="tab\\tline\\nend\\r\\f\\b\\a\\v";',
    f'{PLAIN} required a="\\101\\60\\7" b="\\377\\400\\18";',
    f'{PLAIN} required a="\\q\\8\\x41\\u0041";',
    f"{PLAIN} required a=\"\" b='';",
    f'{PLAIN} required a="b" a="c";',
    f'{PLAIN} required a="\u00fc\u20ac\U0001f600";',
    f"{PLAIN} required \u00fcser=b;",
    f"{PLAIN} required a=b2;",
    f"{PLAIN} required a_1=b;",
    f"{PLAIN} required a=true b=false;",
    f'kafkashaded.{PLAIN} required a="b";',
    "Module required a=b;",
    "a.b$Inner required a=b;",
    f"{PLAIN} required a=b",
    f'{PLAIN} required a="b"',
    PLAIN,
    f"{PLAIN} always a=b;",
    f"{PLAIN} required a;",
    f"{PLAIN} required a=;",
    f"{PLAIN} required =b;",
    f"{PLAIN} required a==b;",
    f"{PLAIN} required a=b c;",
    f"{PLAIN} required a=b; {PLAIN} required c=d;",
    f"{PLAIN} required a=b;;",
    f'{PLAIN} required a="b;',
    f'{PLAIN} required a="b\nc";',
    f"{PLAIN} required a=b@c;",
    f"{PLAIN} required a=b,c=d;",
    f"{PLAIN} required a=b/c;",
    ";",
    "/* nothing */",
]
# What begins as a number does is no word for Java: who has a value like that without quotes is refused there. Here it
# is taken.
MORE_IS_TAKEN = [f"{PLAIN} required a={value};" for value in ("12345", "-5", "1.5", "2b")]


def javas(texts: list[str]) -> list[dict[str, Any]]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    command = [java(), "-cp", f"{jars('kafka')}/*", "-Xmx256m", quiet, str(JAVA)]
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    ended = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def ours(text: str) -> dict[str, Any] | None:
    try:
        found = parse_jaas(text)
    except UsageError:
        return None
    return {name: value.reveal() for name, value in found.options.items()}


@pytest.mark.kafka
def test_each_text_is_read_or_refused_as_kafka_does_it() -> None:
    answers = javas(TEXTS + MORE_IS_TAKEN)
    assert len(answers) == len(TEXTS) + len(MORE_IS_TAKEN) >= 40
    assert {text: ours(text) for text in TEXTS} == {
        text: answer.get("options") for text, answer in zip(TEXTS, answers, strict=False)
    }
    assert all("refused" in answer for answer in answers[len(TEXTS) :])
    assert None not in [ours(text) for text in MORE_IS_TAKEN]
