"""kfake, franz-go's Kafka in memory, as a peer broker: it forgets everything when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from proving.brokers import BrokerProcess, Settings
from proving.members.foreign import go_programs


class KfakeBroker(BrokerProcess):
    """Needs Go, the first time. Settings it does not know it ignores."""

    name = "kfake"

    def __init__(self, settings: Settings | None = None, *, data: Path | None = None) -> None:
        self._program = go_programs() / "kfake"
        super().__init__(settings, data=data)

    def command(self) -> Sequence[str]:
        return [str(self._program), str(self.port), *(f"{name}={value}" for name, value in self.settings.items())]
