"""Problems are bounded, and end when what could not be had is had."""

from __future__ import annotations

from equipoise.views.model import Problem
from equipoise.watching.problems import MOST, Problems
from equipoise.wire.errors import ErrorCode, KafkaError


def test_of_many_things_the_newest_are_kept_and_of_each_the_newest_error() -> None:
    problems = Problems()
    for number in range(MOST + 5):
        problems.note(f"offsets of g-{number}", KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "no"))
    problems.note("offsets of g-7", TimeoutError(), "it took too long")
    whats = [one.what for one in problems.all]
    assert (len(whats), whats[0], whats[-1]) == (MOST, "offsets of g-5", "offsets of g-7")
    assert problems.all[-1] == Problem("offsets of g-7", ErrorCode.NETWORK_EXCEPTION, "it took too long")


def test_what_is_had_later_is_no_problem_any_more() -> None:
    problems = Problems()
    for what in ("groups of broker 1", "groups of broker 2", "sizes of topics", "the cluster"):
        problems.note(what, OSError("away"))
    problems.had_all("groups of broker ")
    problems.had("the cluster")
    problems.had("what never was one")
    assert [one.what for one in problems.all] == ["sizes of topics"]
