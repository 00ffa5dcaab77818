"""The users' file, in its two notations, and Kafka's user_NAME options."""

from __future__ import annotations

import math
from random import Random
from statistics import mean, median, stdev
from time import perf_counter_ns

import pytest

from equipoise.security.sasl import scram
from equipoise.security.secrets import Secret
from equipoise.security.users import Users, is_password, line_of, users_of_options, verifies
from equipoise.wire.errors import UsageError

SECRET = b"of the server"


def verifier(mechanism: str, password: str = "pw") -> scram.ScramCredential:
    salted = scram.salted_password(mechanism, password.encode(), b"salt", 4096)
    return scram.credential(mechanism, salted, b"salt", 4096)


def test_a_password_is_for_plain_and_for_scram() -> None:
    users = Users.parse("# people\n\nalice:plain:p:w \n", SECRET)
    assert users.password("alice") == Secret("p:w ")
    for mechanism in scram.HASHES:
        kept = users.credentials("alice", mechanism)
        assert kept is not None
        assert verifies(mechanism, kept, Secret("p:w "))
        assert users.credentials("alice", mechanism) is kept
    assert users.verifier("alice") is None
    assert users.credentials("bob", "SCRAM-SHA-256") is users.password("bob") is None


@pytest.mark.parametrize("mechanism", scram.HASHES)
@pytest.mark.parametrize("name", ["alice", "a:b", "=2C", "Zoë", "$x"])
def test_a_verifier_is_read_as_it_was_written(mechanism: str, name: str) -> None:
    kept = verifier(mechanism)
    users = Users.parse(line_of(name, mechanism, kept), SECRET)
    assert users.credentials(name, mechanism) == kept
    assert users.verifier(name) == (mechanism, kept)
    assert users.password(name) is None
    other = next(one for one in scram.HASHES if one != mechanism)
    assert users.credentials(name, other) is None
    assert verifies(mechanism, kept, Secret("pw"))
    assert not verifies(mechanism, kept, Secret("pW"))


def test_a_user_may_have_one_line_for_each_mechanism() -> None:
    lines = [line_of("a", mechanism, verifier(mechanism)) for mechanism in scram.HASHES]
    users = Users.parse("\n".join(lines), SECRET)
    assert len(users) == 1
    with pytest.raises(UsageError, match="line 3"):
        Users.parse("\n".join([*lines, lines[0]]), SECRET)


@pytest.mark.parametrize(
    "line",
    [
        "alice",
        "alice:secretword",
        ":plain:secretword",
        "alice:plain:",
        "alice:SCRAM-SHA-1$4096:c2FsdA==$secretword:c2FsdA==",
        "alice:SCRAM-SHA-256$4096:secretword",
        "alice:SCRAM-SHA-256$4096:c2FsdA==$c2VjcmV0d29yZA==:c2FsdA==",
        line_of("alice", "SCRAM-SHA-256", verifier("SCRAM-SHA-256")._replace(iterations=4095)),
        line_of("alice", "SCRAM-SHA-512", verifier("SCRAM-SHA-256")),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(line: str) -> None:
    with pytest.raises(UsageError, match="line 2") as raised:
        Users.parse("bob:plain:x\n" + line, SECRET)
    assert "secretword" not in str(raised.value)
    assert "c2VjcmV0d29yZA" not in str(raised.value)


def test_kafkas_options_name_users() -> None:
    users = users_of_options({"username": "admin", "password": "x", "user_alice": "pw", "user_": "empty"}, SECRET)
    assert users.password("alice") == Secret("pw")
    assert users.password("admin") is None


def test_a_password_is_compared_whole() -> None:
    assert is_password(Secret("pw"), Secret("pw"))
    assert not is_password(Secret("pw"), Secret("pW"))
    assert not is_password(None, Secret(""))
    assert not is_password(None, Secret("pw"))


RIGHT = 4_000  # letters: to compare so many one by one takes far longer than where a string lies in memory


def difference_in_time(expected: Secret, beginnings: list[str], chance: Random) -> float:
    """Of the usual times of two guesses, in nanoseconds, by a thousand tries of each by turns of chance."""
    taken: dict[str, list[int]] = {begin: [] for begin in beginnings}
    for begin in chance.choices(beginnings, k=2000):
        guess = Secret(begin + "z")
        began = perf_counter_ns()
        is_password(expected, guess)
        taken[begin].append(perf_counter_ns() - began)
    one, other = (median(times) for times in taken.values())
    return one - other


def tells(chance: Random) -> bool:
    """Whether the time shows which guess has all but the last letter right: by Student's t over blocks, so that the
    machine's other work is in both, and by what even the quickest comparison of letters takes."""
    expected, guesses = Secret("x" * RIGHT + "y"), ["x" * RIGHT, "q" * RIGHT]
    blocks = [difference_in_time(expected, guesses, chance) for _ in range(20)]
    t = abs(mean(blocks)) / ((stdev(blocks) or 1.0) / math.sqrt(len(blocks)))
    return t > 4.5 and abs(mean(blocks)) > RIGHT / 200


def test_the_time_of_a_comparison_does_not_tell_how_much_was_right() -> None:
    """A busy machine may tell something else once; a comparison that tells does so every time."""
    chance = Random(7)
    assert not all(tells(chance) for _ in range(4))
