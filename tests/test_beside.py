"""Tests that share something dear go to one worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.beside import asked_by

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("file", "shared"),
    [
        ("proving/test_clusters.py", "kafka-cluster"),
        ("client/test_truncation_kafka.py", "kafka-cluster"),
        ("spark/test_sink.py", "spark"),
        ("spark/test_pipeline.py", "spark"),
        ("spark/test_options.py", ""),
        ("test_beside.py", ""),
    ],
)
def test_what_a_file_shares_is_found_in_its_text(file: str, shared: str) -> None:
    assert asked_by(HERE / file) == shared
