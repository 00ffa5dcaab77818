"""The comparison for `consumer` groups: its scripts, and Apache Kafka beside us."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from equipoise.broker import Broker
from proving.conformance.consumer.generate import ConsumerDrawing
from proving.conformance.consumer.scripts import all_scripts
from proving.conformance.consumer.side import RECORDS
from proving.conformance.consumer.steps import arrive, beat, depart
from proving.conformance.consumer.values import Claim, Epoch, Held, Parts, Pattern, Topic
from proving.conformance.listed import CONSUMER, Found, listed
from proving.conformance.normal import MADE, Names
from proving.conformance.play import play, play_drawn
from proving.conformance.run import STEPS, run
from proving.conformance.steps import Ask, Id, Script, TopicId
from proving.conformance.worlds import CONSUMER_SETTINGS, World, our_settings, prepare

T, U = b"t" * 16, b"u" * 16
SCRIPTS = 300


@pytest.fixture
def names() -> Names:
    return Names({"g": "g-7"}, {"t": T, "u": U}, 9092)


def test_the_scripts_are_many_and_each_has_its_name() -> None:
    scripts = all_scripts()
    assert len(scripts) >= SCRIPTS
    assert [name for name, count in Counter(map(str, scripts)).items() if count > 1] == []
    assert {script.world for script in scripts} == CONSUMER_SETTINGS.keys()


def test_a_drawing_is_repeated_by_its_seed() -> None:
    assert [ConsumerDrawing("5").draw() for _ in range(2)] == [ConsumerDrawing("5").draw() for _ in range(2)]


def test_what_a_member_was_told_stands_for_itself(names: Names) -> None:
    names.epochs["a"], names.held["a"] = 4, {"t": [0, 1, 2]}
    assert names.resolve(Epoch("a", -1), "g") == 3
    assert names.resolve(Held("a", 1), "g") == [{"topic_id": T, "partitions": [0]}]
    assert names.resolve(Parts({"u": [1]}), "g") == [{"topic_id": U, "partitions": [1]}]
    assert names.resolve(Epoch("nobody"), "g") == 0
    assert names.resolve(Held("nobody"), "g") == []


def test_own_topics_have_the_groups_name_in_theirs(names: Names) -> None:
    assert names.resolve(Topic("x"), "g") == "x-g-7"
    assert names.resolve(Pattern("x.*{own}"), "g") == r"x.*\-g\-7"
    assert names.without_own("x-g-7") == "x"
    names.made_topic("x", "x-g-7", b"x" * 16)
    claim: bytes = names.resolve(Claim(("x",), Held("a")), "g")
    assert b"x-g-7" in claim
    assert names.resolve(TopicId("x"), "g") == b"x" * 16


def test_ids_that_a_coordinator_has_made_are_counted(names: Names) -> None:
    assert names.member("A" * 22) == f"{MADE}#1"
    assert names.member("B" * 22) == f"{MADE}#2"
    assert names.resolve(Id(MADE, 1), "g") == "A" * 22
    assert names.member("a") == "a"


def test_a_first_heartbeat_says_everything_and_a_later_one_nothing() -> None:
    first, later = arrive("P", "t"), beat("P")
    assert first.fields["subscribed_topic_names"] == ["t"]
    assert first.fields["topic_partitions"] == Parts({})
    assert (first.fields["instance_id"], first.fields["member_id"]) == ("P", "p")
    assert later.fields["subscribed_topic_names"] is None
    assert later.fields["topic_partitions"] is None
    assert later.fields["member_epoch"] == Epoch("P")


# -- one of ours beside itself


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with Broker(settings=our_settings("consumer")) as broker:
        place = prepare("ours", int(broker.bootstrap_servers.rpartition(":")[2]))
        yield World("consumer", place, place)


@pytest.mark.parametrize("script", [script for script in all_scripts() if script.world == "consumer"][::45], ids=str)
def test_ours_is_of_one_mind(world: World, script: Script) -> None:
    played = play(script, world)
    assert played.different == []
    assert played.steps == len(script.steps)


def test_what_was_written_is_seen_step_by_step(world: World) -> None:
    played = play(Script("", "", [arrive("a"), beat("a"), depart("a")]), world)
    types = [[row.split()[0] for row in page.kafka[RECORDS]] for page in played.pages]
    assert types == [["5", "3", "7", "6", "8"], [], ["8", "7", "5", "3", "6"]]


def test_random_scripts_are_repeated_by_their_seed(world: World) -> None:
    first, second = (play_drawn("5-1", world) for _ in range(2))
    assert first.different == second.different == []
    assert list(first.script.steps) == list(second.script.steps)


def test_a_group_that_kafka_forgets_is_listed_only_where_ours_is_empty() -> None:
    asked = Ask("z", "JoinGroup", 9, {"group_id": "g", "member_id": "z"})
    ours = {"type": "consumer", "group_state": "Empty"}
    found = Found(Script("", "", []), (asked,), "g", "group_state", "Dead", "Empty", {"g": {"group_state": "Dead"}})
    assert listed(found._replace(all_of_ours={"g": ours})) is not None
    assert listed(found._replace(all_of_ours={"g": {**ours, "group_state": "Stable"}})) is None
    assert listed(found._replace(all_of_ours={"g": ours}, history=(Ask("z", "JoinGroup", 9, {}),))) is None


# -- beside Apache Kafka


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "steps"), [("1", 200), pytest.param(None, STEPS, id="new", marks=pytest.mark.soak)])
def test_kafka_and_ours_answer_alike(
    kafka: object, capsys: pytest.CaptureFixture[str], seed: str | None, steps: int
) -> None:
    """`kafka` is asked for only to be skipped, or to fail, where there is none: each world has brokers of its own."""
    summary = run(os.environ.get("EQUIPOISE_SEED", seed), steps, protocol=CONSUMER)
    with capsys.disabled():
        print(f"\n{summary.text()}")
    assert summary.is_good, summary.text()
    assert sum(one.steps for one in summary.played if one.is_drawn) >= steps
