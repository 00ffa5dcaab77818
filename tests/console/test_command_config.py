"""--command-config: what commands take from a properties file, and the secrets they never show."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.spark.pipeline.config import Pipeline
from tests.commands import Command

SECRET = "s3kr1t"


def write(path: Path, text: str) -> str:
    path.touch(0o600)
    path.write_text(text)
    return str(path)


def test_the_file_names_the_brokers_unless_the_command_line_does(
    command: Command, broker: Broker, tmp_path: Path
) -> None:
    file = write(tmp_path / "a", f"bootstrap.servers={broker.bootstrap_servers}\nsecurity.protocol=PLAINTEXT\n")
    assert command("topics", "create", "orders", "--command-config", file).status == 0
    wrong = write(tmp_path / "b", "bootstrap.servers=127.0.0.1:1\n")
    ended = command("topics", "list", "--command-config", wrong, "--bootstrap-servers", broker.bootstrap_servers)
    assert "orders" in ended.out
    assert command("topics", "list", "--command-config", wrong).status == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sasl.pasword=x", "unknown setting 'sasl.pasword'; did you mean 'sasl.password'?"),
        (f"security.protocol=SASL_SSL\nsasl.username=a\nsasl.password={SECRET}", "sasl.mechanism is missing"),
        (f"security.protocol=SASL_SSL\nsasl.jaas.config=M required password={SECRET}", "must end with ;"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(command: Command, tmp_path: Path, text: str, said: str) -> None:
    for arguments in (["topics", "list"], ["history"]):
        ended = command(*arguments, "--command-config", write(tmp_path / "a", text))
        assert ended.status == 2
        assert said in ended.err
        assert len(ended.err.splitlines()) == 1
        assert SECRET not in ended.err


def test_settings_of_other_clients_have_no_effect(
    command: Command, broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"bootstrap.servers={broker.bootstrap_servers}\nclient.dns.lookup=use_all_dns_ips\nacks=all\n"
    assert command("topics", "list", "--command-config", write(tmp_path / "a", text)).status == 0
    assert "no effect on a command: acks, client.dns.lookup" in caplog.text


@pytest.mark.parametrize("name", ["source.kafka.sasl.password", "sink.kafka.ssl.key.pem", "source.KAFKA.sasl.password"])
def test_a_secret_is_refused_on_the_command_line(command: Command, name: str) -> None:
    ended = command("run", "some:function", "--set", f"{name}={SECRET}")
    assert ended.status == 2
    assert "every user can see a secret there" in ended.err
    assert SECRET not in ended.err


def test_a_pipeline_takes_the_settings_where_it_has_topics(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(
        '[source]\nsubscribe = "orders"\n[source.kafka.sasl]\nmechanism = "PLAIN"\n[sink]\nformat = "console"\n'
    )
    options = {"kafka.sasl.mechanism": "SCRAM-SHA-256", "kafka.security.protocol": "SASL_SSL"}
    secured = Pipeline.read(str(file)).secured(options)
    assert secured.source["kafka.sasl.mechanism"] == "PLAIN"
    assert secured.source["kafka.security.protocol"] == "SASL_SSL"
    assert "kafka.security.protocol" not in secured.sink
