"""`python -m bench joins`: the picture of what was seen, and a join that is watched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.joins import run as joins
from bench.joins.picture import draw
from bench.joins.run import MEMBERS, PARTITIONS, WAYS, Seen, Way, watch_join
from bench.versus.rebalances import Rebalance
from proving.members.events import Span
from proving.members.hosts import CONSUMER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bench reads process clocks of Linux")


def seen_in(whole: float) -> Seen:
    owners = ["member 1", "member 2", "member 3", "member 4", "newcomer"]
    spans = {
        ("topic", n): [Span(0.0, 10.0, f"g/{owner}"), Span(10.5, 12.0, "g/newcomer")] for n, owner in enumerate(owners)
    }
    return Seen(10.0, spans, Rebalance(whole, whole, 0.5))


def test_every_way_has_a_panel(tmp_path: Path) -> None:
    picture = tmp_path / "joins.png"
    draw({way: seen_in(0.5 + number) for number, way in enumerate(WAYS)}, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_join_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "MEMBERS", 2)
    settings = {"group.consumer.min.heartbeat.interval.ms": 100, "group.consumer.heartbeat.interval.ms": 100}
    seen = watch_join(Way(CONSUMER, settings), calm=0.2)
    assert len(seen.spans) == PARTITIONS
    assert 0 <= seen.rebalance.unowned < seen.rebalance.whole
    assert MEMBERS > 2
