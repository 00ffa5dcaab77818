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
    machines."""

    failure: str | None
    length: int
    steps: int


def run(lines: Sequence[str]) -> Run:
    """A command that makes no sense, because one before it was left out, is passed over."""
    stage = MemberStage(PlainWords(), is_mute=True)
    for number, line in enumerate(lines, 1):
        try:
            do(stage, COMMANDS, line)
            if stage.rules is not None and number % _REPLAYS_EVERY == 0:
                stage.rules.durability.check_replay()
        except UsageError:
            continue
        except Exception as error:  # noqa: BLE001 - a bug can raise anything
            return Run(described(error), number, stage.world.inputs)
    return Run(None, len(lines), stage.world.inputs)
