"""One run of a schedule, or of a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.simulate.scripts.member_commands import COMMANDS
from equipoise.simulate.scripts.member_stage import MemberStage
from equipoise.simulate.scripts.runner import described, do
from equipoise.simulate.scripts.words import PlainWords
from equipoise.wire.errors import UsageError

_REPLAYS_EVERY = 16  # commands: the log is read back and compared


class Run(NamedTuple):
    """`failure`: what is wrong; None: nothing. `length`: the commands up to there. `steps`: inputs of the state
    machines. `senseless`: places of commands that were passed over."""

    failure: str | None
    length: int
    steps: int
    senseless: tuple[int, ...] = ()


def run(lines: Sequence[str]) -> Run:
    """A command that makes no sense, because one before it was left out, is passed over."""
    stage = MemberStage(PlainWords(), is_mute=True)
    senseless: list[int] = []
    for number, line in enumerate(lines, 1):
        try:
            do(stage, COMMANDS, line)
            if stage.rules is not None and number % _REPLAYS_EVERY == 0:
                stage.rules.durability.check_replay()
        except UsageError:
            senseless.append(number - 1)
        except Exception as error:  # noqa: BLE001 - a bug can raise anything
            return Run(described(error), number, stage.world.inputs, tuple(senseless))
    return Run(None, len(lines), stage.world.inputs, tuple(senseless))


def sensible(lines: Sequence[str]) -> list[str]:
    """The commands up to the failure, or all, without those that were passed over: a script can have them."""
    outcome = run(lines)
    return [line for place, line in enumerate(lines[: outcome.length]) if place not in outcome.senseless]
