"""Every script in this directory says what happens. `pytest tests/transcripts --rewrite-transcripts` renews them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from equipoise.console import words
from equipoise.coordinator.classic.states import TRANSITIONS, State
from equipoise.coordinator.events import CommitRefused, Event, MemberLeft, StateChanged
from equipoise.coordinator.reasons import (
    CONSUMER_GROUP_DEPARTURES,
    CONSUMER_GROUP_REFUSALS,
    CONSUMER_GROUP_TRIGGERS,
    Departure,
    Refusal,
    Trigger,
)
from equipoise.simulate.scripts.coordinator_commands import COMMANDS
from equipoise.wire.errors import UsageError
from tests.transcripts.runner import SCRIPTS, run

TRACES = 24  # in the table of reference traces


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text(encoding="utf-8")
    actual = run(expected, path.name)
    if request.config.getoption("--rewrite-transcripts", default=False):
        path.write_text(actual, encoding="utf-8")
        return
    assert actual == expected


def _all_scripts() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in SCRIPTS)


def test_every_reference_trace_has_its_script() -> None:
    named = Counter(int(number) for number in re.findall(r"^# Trace (\d+)\.", _all_scripts(), re.MULTILINE))
    assert named == Counter(range(1, TRACES + 1))


def test_every_command_is_used() -> None:
    assert set(re.findall(r"^> (\S+)", _all_scripts(), re.MULTILINE)) == set(COMMANDS)


def test_the_scripts_meet_every_reason_and_every_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the way to Dead, which is no event."""
    events: list[Event] = []
    render = words.event

    def note(event: Event) -> str:
        events.append(event)
        return render(event)

    monkeypatch.setattr(words, "event", note)
    for path in SCRIPTS:
        run(path.read_text(encoding="utf-8"))
    changes = [event for event in events if isinstance(event, StateChanged)]
    assert {(one.origin, one.target) for one in changes} == {way for way in TRANSITIONS if way[1] is not State.DEAD}
    assert {one.cause.trigger for one in changes if one.cause is not None} == set(Trigger) - CONSUMER_GROUP_TRIGGERS
    assert {one.departure for one in events if isinstance(one, MemberLeft)} == set(
        Departure
    ) - CONSUMER_GROUP_DEPARTURES
    assert {one.refusal for one in events if isinstance(one, CommitRefused)} == set(Refusal) - CONSUMER_GROUP_REFUSALS


# -- the runner


def test_a_wrong_line_is_found_and_renewed() -> None:
    script = "# kept\n\n> topic orders partitions=1\n> join a\na: joined\n"
    renewed = "# kept\n\n> topic orders partitions=1\n> join a\na: MEMBER_ID_REQUIRED member_id=a-1\n"
    assert run(script) == renewed + "g: wrote generation 0 with no members\n"
    assert run(run(script)) == run(script)


def test_time_stands_still_between_commands_and_stops_at_every_deadline() -> None:
    lines = run("> join a version=3\n> advance 4s\n> join b version=3\n> heartbeat a\n").splitlines()
    assert "0:03.000 a: joined generation=1 protocol=range member_id=a-1 leader members=[a-1]" in lines
    assert lines[-1] == "a: REBALANCE_IN_PROGRESS"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("> jion a", "odd, line 2: no command 'jion'; there are config"),
        ("> join", "odd, line 2: join: a name is missing"),
        ("> join a sesion=10s", "odd, line 2: join a sesion=10s: nobody knows what to do with sesion=10s"),
        ("> advance 3", "odd, line 2: advance 3: 3 is no time; write 3s, 999ms, 2m, 1h or 7d"),
        ("> commit a orders:0=1", "there is no topic orders"),
        ("> sync a assign a=orders", "orders names no partitions; write orders:0,1"),
        ("> config group.max.sice=2", "group.max.sice is no setting of the coordinator"),
        ("> journal g", "there is no group g"),
        ("> fail-writes KAFKA_STORAGE_ERROR", "nothing is being written; begin with delay-writes"),
        ("> join a reason='", "No closing quotation"),
    ],
)
def test_a_command_that_makes_no_sense_is_named_with_its_line(line: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        run(f"# a comment\n{line}\n", "odd")
