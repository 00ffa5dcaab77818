"""A shard and its writes under way are data: saved and read back before every single step, all goes on as it would.

The transcripts and the hunt run on shards that are pickled before each input. Only the callers' tokens, which
belong to the runner of a shard, are kept as they are.
"""

from __future__ import annotations

import copy
import functools
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from equipoise.coordinator.shard import Shard
from equipoise.coordinator.shard_state import Status
from equipoise.coordinator.step import Caller, Write
from equipoise.wire.errors import ErrorCode
from tests.effort import examples
from tests.member.test_town_stateful import TownMachine
from tests.member.test_transcripts import SCRIPTS as BOTH_SIDES
from tests.member.test_transcripts import run as run_member_script
from tests.property.test_group_stateful import GroupMachine
from tests.spec.context import Context, assignment
from tests.transcripts.runner import SCRIPTS, run

INPUTS = [
    "activate",
    "close",
    "tick",
    "written",
    "join_group",
    "sync_group",
    "heartbeat",
    "is_well",
    "consumer_group_heartbeat",
    "connection_lost",
    "client_came",
    "release_heartbeat",
    "leave_group",
    "commit_offsets",
    "delete_offsets",
    "delete_group",
    "topic_deleted",
]


class Pickler(pickle.Pickler):
    """Tokens are not copied: they stand for callers outside of the state."""

    def __init__(self, file: io.BytesIO, known: dict[int, Any]) -> None:
        super().__init__(file)
        self.known = known

    def persistent_id(self, obj: Any) -> int | None:
        return id(obj) if id(obj) in self.known else None


class Unpickler(pickle.Unpickler):
    """Finds the tokens again."""

    def __init__(self, data: bytes, known: dict[int, Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.known = known

    def persistent_load(self, pid: int) -> Any:
        return self.known[pid]


class Tokens:
    """The tokens of all callers so far, by identity."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}

    def note(self, values: tuple[Any, ...]) -> None:
        for value in values:
            if isinstance(value, Caller):
                self.known[id(value.token)] = value.token

    def saved(self, value: Any) -> bytes:
        buffer = io.BytesIO()
        Pickler(buffer, self.known).dump(value)
        return buffer.getvalue()

    def read(self, data: bytes) -> Any:
        return Unpickler(data, self.known).load()

    def again(self, value: Any) -> Any:
        """A copy that has been bytes. It equals what it was, and can be printed."""
        found = self.read(self.saved(value))
        assert found == value
        assert repr(found)
        return found


@pytest.fixture
def saved_at_every_step(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every input of every shard meets a state that was just read back. Their names, in order."""
    tokens, inputs = Tokens(), list[str]()

    def through(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def renewed(shard: Shard, *args: Any) -> Any:
            inputs.append(name)
            tokens.note(args)
            shard.__setstate__(tokens.again(shard.__getstate__()))
            writes = [tokens.again(one) if isinstance(one, Write) else one for one in args]
            return method(shard, *writes)

        return renewed

    for name in INPUTS:
        monkeypatch.setattr(Shard, name, through(name, getattr(Shard, name)))
    return inputs


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_is_the_same_when_the_state_is_saved_at_every_step(
    path: Path, saved_at_every_step: list[str]
) -> None:
    expected = path.read_text(encoding="utf-8")
    assert run(expected, path.name) == expected
    assert saved_at_every_step


@pytest.mark.parametrize("path", BOTH_SIDES, ids=lambda path: path.stem)
def test_a_transcript_of_both_sides_is_the_same_when_the_state_is_saved_at_every_step(
    path: Path, saved_at_every_step: list[str]
) -> None:
    expected = path.read_text(encoding="utf-8")
    assert run_member_script(expected, path.name) == expected
    assert saved_at_every_step


@pytest.mark.parametrize("machine", [GroupMachine, TownMachine])
def test_a_hunt_finds_nothing_when_the_state_is_saved_at_every_step(
    machine: type[RuleBasedStateMachine], saved_at_every_step: list[str]
) -> None:
    chosen = settings(
        max_examples=max(examples(20), 5),  # fewer draw no commit
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)
    assert {"join_group", "sync_group", "written", "commit_offsets", "tick"} <= set(saved_at_every_step)


# -- one state at a time


def stages() -> Context:
    """Two groups: one with every kind of parked request's neighbour, one Empty with an offset on its way out."""
    ctx = Context(group_heartbeat_hold_max_ms=3_000)
    a, b = ctx.stable("a", "b")
    ctx.commit({0: 7}, ("other", "", -1, None))
    a.heartbeat(hold_ms=2_000)
    ctx.hold_writes()
    ctx.delete_group("other")
    b.commit({1: 5})
    b.join(offered=[("range", b"other")])
    return ctx


def test_a_copy_goes_its_own_way() -> None:
    """What happens to the copy does not happen to the shard."""
    ctx = stages()
    saved = ctx.shard
    twin = copy.copy(saved)
    twin.__setstate__(copy.deepcopy(saved.__getstate__(), {id(one): one for one in _tokens(saved)}))
    twin.attach(lambda: "1")
    assert twin.__getstate__() == saved.__getstate__()
    twin.close(ctx.now)
    assert (twin.status, saved.status) == (Status.CLOSED, Status.ACTIVE)
    assert saved.groups["g"].parked.joins
    assert twin.__getstate__() != saved.__getstate__()


def _tokens(shard: Shard) -> list[Any]:
    return [
        caller.token
        for group in shard.groups.values()
        for callers in (group.parked.joins, group.parked.syncs, group.parked.heartbeats)
        for caller in callers.values()
    ]


def test_outcomes_under_way_can_be_read() -> None:
    """An outcome says in words which group and which request it belongs to."""
    ctx = stages()
    texts = [repr(write.outcome) for write in ctx.under_way]
    assert [text.split("(")[0] for text in texts] == ["GroupTombstoned", "OffsetsCommitted"]
    assert "group_id='other'" in texts[0]
    assert "committed_offset=5" in texts[1]


def test_an_assignment_of_a_deleted_group_is_not_that_of_its_successor() -> None:
    """Group, generation and state are the same; the leader is another."""
    ctx = Context()
    (a,) = ctx.completing("a")
    ctx.hold_writes()
    a.sync({a: assignment(0)})
    (late,) = ctx.under_way
    ctx.under_way.clear()
    a.leave()
    ctx.durable()
    ctx.delete_group()
    ctx.durable()
    (b,) = ctx.completing("b")
    assert (a.generation_id, b.generation_id) == (1, 1)
    ctx.run(ctx.shard.written(late, ErrorCode.NONE, ctx.now))
    assert ctx.group().state.value == "CompletingRebalance"
