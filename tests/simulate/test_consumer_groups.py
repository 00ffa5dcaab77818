"""Members of consumer groups and their coordinator in one world, by chance."""

from __future__ import annotations

import pytest

from equipoise.coordinator.consumer.assignment import epochs
from equipoise.simulate import Clock, Transcript, World
from tests.effort import examples
from tests.simulate.hunting import CONFIG, INTERVAL, Hunt


def test_a_group_shares_and_hands_over() -> None:
    world = World({"t": 6}, config=CONFIG)
    a = world.consumer_of_848("a").subscribe("t")
    world.settle()
    assert a.partitions == set(range(6))
    b = world.consumer_of_848("b").subscribe("t")
    world.advance(10 * INTERVAL)
    world.settle()
    assert len(a.partitions) == len(b.partitions) == 3
    a.close()
    world.settle()
    assert b.partitions == set(range(6))


def test_a_pattern_is_matched_by_the_coordinator() -> None:
    world = World({"t1": 2, "u": 2}, config=CONFIG)
    a = world.consumer_of_848("a").subscribe(regex="t.*")
    world.advance(20 * INTERVAL)
    assert {one.topic for one in a.member.readable} == {"t1"}
    world.set_topics({"t1": 2, "u": 2, "t2": 1})
    world.tell_metadata()
    world.advance(60 * INTERVAL)
    assert {one.topic for one in a.member.readable} == {"t1", "t2"}


@pytest.mark.parametrize(
    "names", [("customer-orders-eu", "customer-orders-us"), ("t", "t.", "t.."), ("äöüäöüäöü", "t")]
)
def test_topics_with_names_that_are_alike_are_several(names: tuple[str, ...]) -> None:
    clock = Clock()
    transcript = Transcript(clock, str)
    world = World(dict.fromkeys(names, 2), config=CONFIG, clock=clock, observers=[transcript])
    a = world.consumer_of_848("a").subscribe(*names)
    world.settle()
    assert {(one.topic, one.partition) for one in a.member.readable} == {(name, n) for name in names for n in (0, 1)}
    assert all(f"{name}:0,1" in str(transcript) for name in names)


@pytest.mark.parametrize("seed", [*range(examples(40)), 1056, 2344, 2430])
def test_gentle_hunt(seed: int) -> None:
    """Members come and go, messages are lost, the coordinator crashes: nobody is fenced."""
    hunt = Hunt(seed, is_rough=False)
    for _ in range(40):
        hunt.step()
    assert hunt.watch.fenced == []
    hunt.settle()


@pytest.mark.parametrize("seed", range(examples(40)))
def test_rough_hunt(seed: int) -> None:
    """Processes die and stand still, and applications are late, too."""
    hunt = Hunt(seed, is_rough=True)
    for _ in range(40):
        hunt.step()
    hunt.settle()


@pytest.mark.parametrize("seed", range(examples(20)))
def test_mixed_hunt(seed: int) -> None:
    """Classic members come into the group, and the group changes its protocol in both directions."""
    hunt = Hunt(seed, is_rough=False, is_mixed=True, hold_ms=400 if seed == 5267 else 0)
    for _ in range(40):
        hunt.step()
    hunt.settle()


@pytest.mark.parametrize("seed", [*range(examples(20)), 3015, 3056, 3119, 3239, 3288])
def test_rough_mixed_hunt(seed: int) -> None:
    """The same, and processes die and stand still, and applications are late."""
    hunt = Hunt(seed, is_rough=True, is_mixed=True, hold_ms=400 if seed % 2 else 0)
    for _ in range(40):
        hunt.step()
    hunt.settle()


@pytest.mark.parametrize("seed", range(examples(20)))
def test_hunt_with_held_heartbeats(seed: int) -> None:
    """The coordinator answers heartbeats when there is news."""
    hunt = Hunt(seed, is_rough=bool(seed % 2), is_mixed=seed % 4 == 2, hold_ms=INTERVAL - 50)
    for _ in range(40):
        hunt.step()
    hunt.settle()


@pytest.mark.parametrize("seed", range(examples(20)))
def test_hunt_with_targets_apart_from_heartbeats(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a large group: a target is computed in one turn, and takes effect in the next. Rule A12.7."""
    monkeypatch.setattr(epochs, "LARGE_GROUP", 0)
    monkeypatch.setattr(epochs, "MANY_PARTITIONS", 0)
    hunt = Hunt(seed, is_rough=bool(seed % 2), is_mixed=seed % 4 == 2, hold_ms=(seed % 3) * 200)
    for _ in range(40):
        hunt.step()
    hunt.settle()


@pytest.mark.soak
@pytest.mark.parametrize("hold_ms", [0, INTERVAL - 50])
@pytest.mark.parametrize("is_mixed", [False, True])
@pytest.mark.parametrize("is_rough", [False, True])
def test_hunts_without_end(is_rough: bool, is_mixed: bool, hold_ms: int) -> None:
    for seed in range(1_000, 3_000):
        hunt = Hunt(seed, is_rough=is_rough, is_mixed=is_mixed, hold_ms=hold_ms)
        for _ in range(60):
            hunt.step()
        assert is_rough or is_mixed or hunt.watch.fenced == []
        hunt.settle()
