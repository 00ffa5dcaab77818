"""`equipoise check`: what it prints and how it ends, beside a running broker and after damage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.broker import Broker
from equipoise.wire.errors import UsageError
from tests.broker.calls import append, create_topic, read_partition
from tests.broker.rawclient import RawClient
from tests.crash.served import run_serve


def run_check(data: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "equipoise", "check", "--data", str(data), *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout + ended.stderr


def values_of(data: Path) -> list[bytes | None]:
    with Broker(data=data) as broker, RawClient(broker.bootstrap_servers) as client:
        return [record.value for record in read_partition(client)]


def test_check_from_a_sound_directory_to_topics_made_anew(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Broker(data=data) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, partitions=3)
        append(client, b"value")
        assert run_check(data, "--deep") == (0, "no findings in 1 partitions with records\n")

    (data / "topics.json").write_text("{}")
    status, text = run_check(data)
    assert (status, "topics.json is damaged" in text, "1 finding in 0 partitions" in text) == (1, True, True)
    status, text = run_serve("--data", str(data), "--listen", "127.0.0.1:0")
    assert (status, "--rebuild-topics" in text, "Traceback" in text) == (2, True, False)

    status, text = run_check(data, "--rebuild-topics")
    assert (status, "t (3 partitions)" in text, "Configs are lost" in text) == (0, True, True)
    assert values_of(data) == [b"value"]
    status, text = run_check(data, "--rebuild-topics")
    assert (status, "is in order" in text) == (2, True)


def test_check_of_what_is_no_data_directory(tmp_path: Path) -> None:
    status, text = run_check(tmp_path / "nowhere")
    assert (status, "is no directory" in text) == (2, True)


def test_a_broker_starts_in_the_same_process_when_the_damage_is_mended(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client)
        append(client, b"value")
    checkpoint = tmp_path / "t-0" / "checkpoint.json"
    checkpoint.write_text("{}")
    with pytest.raises(UsageError, match=r"checkpoint\.json is damaged"):
        Broker(data=tmp_path).start()
    checkpoint.unlink()
    assert values_of(tmp_path) == [b"value"]
