"""`python -m bench generations`: a very short run of two protocols, and its picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.generations import picture as generations_picture
from bench.generations import run as generations
from bench.generations.groups import Kind
from bench.generations.run import EVENTS, Size, figures
from tests.commands import Command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bench reads process clocks of Linux")
ROOT = Path(__file__).parent.parent.parent
KINDS = (Kind.ZK_SAFE, Kind.COOPERATIVE)


@pytest.mark.soak
def test_json_has_every_figure_and_the_picture_is_drawn(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "QUICK", Size((2,), 1))
    monkeypatch.setattr(generations, "Kind", KINDS)
    monkeypatch.setattr(generations_picture, "Kind", KINDS)
    monkeypatch.setattr(generations, "_CALM_S", 0.0)
    picture = tmp_path / "generations.png"
    ended = command("generations", "--quick", "--json", "--picture", str(picture))
    document = json.loads(ended.out)
    assert list(document["figures"]) == [
        f"{kind.value}_2_{event}_{what}" for kind in KINDS for event in EVENTS for what in ("unowned", "requests")
    ]
    assert all(figure["best"] > 0 for figure in document["figures"].values())
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert document["table"][0] == heading()
    assert [row.split(" | ")[0] for row in document["table"][2:]] == [f"| {kind.title}" for kind in KINDS]


def heading() -> str:
    """Of the table in the document, which is what the bench prints."""
    lines = (ROOT / "docs" / "zookeeper.md").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("|  | a join: ms unowned"))


def test_every_protocol_has_its_figures() -> None:
    assert len(figures(Size((4, 8), 1))) == len(Kind) * 2 * len(EVENTS) * 2


def test_without_matplotlib_it_says_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = command("generations", "--picture", "x.png")
    assert ended == (2, "", "bench: generations needs matplotlib: `make setup` installs it\n")
