"""--command-config: what commands take from a properties file, and the secrets they never show."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.spark.pipeline.config import Pipeline
from tests.client.secured import SecuredBroker
from tests.commands import Command
from tests.security.certificates import PASSWORD, authority, java_truststore, p12, server_context

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
    assert command("topics", "list", "--command-config", wrong).status == 3


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


def test_a_command_on_a_secured_cluster_with_the_files_of_a_java_user(command: Command, tmp_path: Path) -> None:
    """A JKS truststore, a PKCS12 keystore and a JAAS entry; and what a wrong password shows."""
    wanting = server_context(authority().issue_cert("localhost"), authority())
    me = tmp_path / "me.p12"
    me.write_bytes(p12(authority().issue_cert("alice@example.com"), []))
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    with SecuredBroker(wanting, ("SCRAM-SHA-512",)) as broker:
        text = f"""
            bootstrap.servers=localhost:{broker.port}
            security.protocol=SASL_SSL
            sasl.mechanism=SCRAM-SHA-512
            sasl.jaas.config={module} required \\
                username="alice" password="alice-secret";
            ssl.truststore.location={java_truststore(tmp_path, "JKS", authority())}
            ssl.truststore.password={PASSWORD}
            ssl.keystore.location={me}
            ssl.keystore.password={PASSWORD}
        """
        ended = command("topics", "list", "--command-config", write(tmp_path / "a", text))
        assert (ended.status, ended.out) == (0, f"no topics on localhost:{broker.port}\n"), ended.err
        wrong = write(tmp_path / "b", text.replace("alice-secret", SECRET))
        ended = command("topics", "list", "--command-config", wrong)
        assert ended.status == 1
        assert "SCRAM-SHA-512" in ended.err
        assert SECRET not in ended.err
