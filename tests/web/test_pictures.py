"""The pictures of the documents are those that the console draws now. `--rewrite-transcripts` draws them anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from bench.console.pictures import NAMES, draw
from proving.tree import ROOT

DOCS = ROOT / "docs"
MOST_DIFFERENT = 0.03  # of a colour, on the average: another version of Chromium has other edges


@pytest.fixture(scope="module")
def drawn(chromium: Browser, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    directory = tmp_path_factory.mktemp("pictures")
    draw(chromium, directory)
    if pytestconfig.getoption("--rewrite-transcripts"):
        for name in NAMES:
            (DOCS / name).write_bytes((directory / name).read_bytes())
    return directory


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_shows_the_console_as_it_is(drawn: Path, name: str) -> None:
    from matplotlib.image import imread  # each worker of pytest collects this file, and few run it

    kept, now = imread(DOCS / name)[..., :3], imread(drawn / name)[..., :3]
    assert kept.shape == now.shape
    assert float(np.abs(kept - now).mean()) < MOST_DIFFERENT
