"""`equipoise simulate play`, and docs/tour.md, which tells what it prints."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.console import words
from equipoise.simulate.scripts.runner import play
from equipoise.simulate.scripts.zookeeper_commands import COMMANDS
from equipoise.simulate.tour import EPISODES, episode
from equipoise.wire.errors import UsageError

TOUR = Path(__file__).parents[2] / "docs" / "tour.md"
HOME = Path(__file__).parents[2] / "src" / "equipoise" / "simulate" / "tour"


def equipoise(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "equipoise", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("number", range(1, len(EPISODES) + 1))
def test_every_episode_says_what_happens(number: int, request: pytest.FixtureRequest) -> None:
    script = episode(number)
    played = "\n".join(play(script, f"tour/{number}", words)) + "\n"
    if request.config.getoption("--rewrite-transcripts", default=False):
        (HOME / f"{EPISODES[number - 1]}.txt").write_text(played, encoding="utf-8")
        return
    assert played == script


def test_the_document_shows_each_command_and_what_it_prints() -> None:
    blocks = re.findall(r"```console\n\$ (.*?)\n(.*?)```", TOUR.read_text(encoding="utf-8"), re.DOTALL)
    assert [command for command, _ in blocks] == [
        f"equipoise simulate play tour/{number}" for number in range(1, len(EPISODES) + 1)
    ]
    for number, (_, output) in enumerate(blocks, 1):
        assert output == episode(number)


def test_the_command_plays_an_episode_and_a_file_of_ones_own(tmp_path: Path) -> None:
    played = equipoise("simulate", "play", "tour/4")
    assert (played.returncode, played.stdout) == (0, episode(4))
    mine = tmp_path / "mine.txt"
    shutil.copy(HOME / f"{EPISODES[3]}.txt", mine)
    mine.write_text(mine.read_text(encoding="utf-8").replace("generation 3", "generation 4"), encoding="utf-8")
    differs = equipoise("simulate", "play", str(mine))
    assert differs.returncode == 1
    assert "expects other lines" in differs.stderr
    assert equipoise("simulate", "play", str(mine), "--rewrite").returncode == 0
    assert mine.read_text(encoding="utf-8") == episode(4)


def test_a_file_is_compared_by_its_lines(tmp_path: Path) -> None:
    """Some editors write no newline at the end, others a mark at the beginning."""
    mine = tmp_path / "mine.txt"
    mine.write_text("\ufeff" + episode(4).removesuffix("\n"), encoding="utf-8")
    played = equipoise("simulate", "play", str(mine))
    assert (played.returncode, played.stdout, played.stderr) == (0, episode(4), "")


def test_what_is_no_text_is_one_line(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_bytes(b"> topic \xff\n")
    played = equipoise("simulate", "play", str(mine))
    assert (played.returncode, played.stderr) == (2, f"equipoise: {mine}: this is no text in UTF-8\n")


def test_a_coordinator_needs_clients_to_settle() -> None:
    with pytest.raises(UsageError, match="script, line 2: settle: a name is missing"):
        list(play("> config group.max.size=2\n> settle\n> join a\n", "script", words))


def test_what_cannot_be_played_is_one_line() -> None:
    missing = equipoise("simulate", "play", "tour/6")
    assert (missing.returncode, missing.stderr.strip()) == (
        2,
        "equipoise: tour/6: there is no such episode; write tour/1 to tour/5",
    )


def test_every_command_about_zookeeper_is_in_the_tour() -> None:
    assert set(re.findall(r"^> (\S+)", episode(1), re.MULTILINE)) == set(COMMANDS)


def test_a_script_finds_its_vocabulary() -> None:
    lines = list(play("> topic t partitions=1\n> consumer a\n> advance 1s\n", "script", words))
    assert lines[-1].endswith("a reads t:0")
