"""The comparison itself: two of our own brokers agree, one that is set otherwise is found out, shrunk and shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from equipoise.broker import Broker
from proving.conformance.generate import Drawing
from proving.conformance.listed import CLASSIC, LISTED, document
from proving.conformance.play import Played, play, play_drawn
from proving.conformance.report import Summary, transcript
from proving.conformance.run import STEPS, decide, run
from proving.conformance.scripts import all_scripts
from proving.conformance.scripts.groups import enter, stable
from proving.conformance.shrink import shrink
from proving.conformance.steps import Ask, Script, Until, describe, heartbeat, join, leave, simple_commit
from proving.conformance.worlds import World, prepare

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.initial.rebalance.delay.early": "false",
    "group.lost.connection.grace.ms": 0,
}
LONG_METADATA = simple_commit("s", metadata="longer than ten")


@contextmanager
def two_of_ours(**other: object) -> Iterator[World]:
    """In the place of Kafka one of ours; the second is set otherwise in `other`."""
    changed = {name.replace("_", "."): value for name, value in other.items()}
    with Broker(settings=SETTINGS) as one, Broker(settings={**SETTINGS, **changed}) as another:
        ports = [int(broker.bootstrap_servers.rpartition(":")[2]) for broker in (one, another)]
        yield World("main", prepare("one", ports[0]), prepare("another", ports[1]))


@pytest.fixture(scope="module")
def pair() -> Iterator[World]:
    with two_of_ours() as world:
        yield world


def names_of(scripts: list[Script]) -> list[str]:
    return [str(script) for script in scripts]


def test_the_scripts_are_many_and_each_has_its_name() -> None:
    names = names_of(all_scripts())
    assert len(names) >= 300
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("script", [script for script in all_scripts() if script.world == "main"][::40], ids=str)
def test_two_of_ours_agree(pair: World, script: Script) -> None:
    played = play(script, pair)
    assert played.different == []
    assert played.steps == len(script.steps)


def test_what_is_parked_is_told_from_what_is_answered(pair: World) -> None:
    played = play(Script("", "", [*stable("a"), *enter("b"), join("a")]), pair)
    waiting, answered = played.pages[-2].kafka, played.pages[-1].kafka
    assert waiting["5 b JoinGroup v9"] == "parked"
    assert answered["5 b JoinGroup v9"]["generation_id"] == answered["6 a JoinGroup v9"]["generation_id"] == 2


def test_ids_have_names_by_their_beginning_and_order(pair: World) -> None:
    played = play(Script("", "", [*enter("a", 3), *enter("A"), join("A", member_id=""), describe("o")]), pair)
    (described,) = played.pages[-1].kafka["4 o DescribeGroups v6"]["groups"]
    assert [row["member_id"] for row in described["members"]] == ["A#2", "a#1"]


def test_a_wait_in_vain_is_a_difference(pair: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "wait_s", 0.1)
    played = play(Script("", "", [Until("Stable")]), pair)
    assert "in vain" in str(played.different[0])


def test_a_difference_is_found_shrunk_and_shown() -> None:
    steps = [*stable("a"), heartbeat("a"), leave("a"), simple_commit("s"), LONG_METADATA, describe("o")]
    with two_of_ours(offset_metadata_max_bytes=10) as world:
        played = play(Script("a section", "a name", steps), world)
        assert played.different[0].path == "topics[0].partitions[0].error_code"
        shrunk = shrink(played, world)
    assert list(shrunk.script.steps) == [LONG_METADATA]
    text = transcript(shrunk)
    assert "kafka  1 s OffsetCommit v9: topics=[name=t partitions=[error_code=NONE]]" in text
    assert "ours   1 s OffsetCommit v9: topics=[name=t partitions=[error_code=OFFSET_METADATA_TOO_LARGE]]" in text
    assert not Summary([played], "1").is_good


def test_random_scripts_find_a_difference_too() -> None:
    with two_of_ours(group_max_size=2) as world:
        played = [play_drawn(f"1-{number}", world) for number in range(10)]
        different = [one for one in played if one.different]
        assert different
        assert shrink(different[0], world).steps < different[0].steps


def test_random_scripts_agree_and_are_repeated_by_their_seed(pair: World) -> None:
    first, second = (play_drawn("5-1", pair) for _ in range(2))
    assert first.different == second.different == []
    assert first.steps >= 20
    assert list(first.script.steps) == list(second.script.steps)
    assert Drawing("5-2").draw() == Drawing("5-2").draw()


def test_what_said_nothing_is_played_again_when_the_others_are_done(pair: World) -> None:
    decided, undecided = (Played(Script("", "", [heartbeat("a")]), again=why) for why in ("", "a slow machine"))
    first, second = decide([decided, undecided], pair)
    assert first is decided
    assert (second.again, second.different, second.steps) == ("", [], 1)


def test_a_listed_difference_is_counted_and_one_that_is_not_seen_reported(pair: World) -> None:
    played = Played(Script("a section", "a name", []), listed={LISTED[0].name})
    summary = Summary([played], "1")
    assert summary.verdict(played) == "listed"
    missing = [row.name for row in LISTED[1:] if row.is_compared and row.protocol == CLASSIC]
    assert summary.unseen == missing
    assert not summary.is_good
    assert f"listed, but it no longer occurs: {missing[0]}" in summary.text()
    assert replace(summary, is_whole=False).is_good


def test_requests_in_a_version_that_nobody_serves_are_an_outcome_too(pair: World) -> None:
    asked = heartbeat("a")
    played = play(Script("", "", [Ask("a", "Heartbeat", 99, asked.fields), asked]), pair)
    assert played.pages[0].kafka["1 a Heartbeat v99"] == "connection closed"
    assert played.pages[1].kafka["2 a Heartbeat v4"] == {"error_code": "UNKNOWN_MEMBER_ID"}


def test_the_document_is_the_list() -> None:
    docs = Path(__file__).parent.parent.parent / "docs"
    assert (docs / "differences.md").read_text(encoding="utf-8") == document()


@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("seed", "steps"), [("1", 200), pytest.param(None, STEPS, id="new", marks=pytest.mark.soak)])
def test_kafka_and_ours_answer_alike(
    kafka: object, capsys: pytest.CaptureFixture[str], seed: str | None, steps: int
) -> None:
    """`kafka` is asked for only to be skipped, or to fail, where there is none: each world has brokers of its own."""
    summary = run(os.environ.get("EQUIPOISE_SEED", seed), steps)
    with capsys.disabled():
        print(f"\n{summary.text()}")
    assert summary.is_good, summary.text()
    assert sum(one.steps for one in summary.played if one.is_drawn) >= steps
