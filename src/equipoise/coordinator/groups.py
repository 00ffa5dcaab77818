"""What the two kinds of groups have in common, for requests that do not care which kind a group is. Rule A23.1."""

from __future__ import annotations

from typing import Protocol

from equipoise.coordinator.journal import Journal


class AnyGroup(Protocol):
    """A classic group or a `consumer` group."""

    @property
    def group_id(self) -> str:
        """Its name."""
        ...

    @property
    def group_type(self) -> str:
        """As ListGroups says it: classic, consumer."""
        ...

    @property
    def protocol_type(self) -> str | None:
        """As ListGroups says it; None: only consumers that assign themselves have ever been here."""
        ...

    @property
    def state_word(self) -> str:
        """The state as describe and list say it."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether the state is Empty."""
        ...

    @property
    def generation_id(self) -> int:
        """Its generation, or its epoch."""
        ...

    @property
    def journal(self) -> Journal:
        """Its rebalances."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read the topic: its offsets stay then."""
        ...
