"""Members that behave as clients do: they join, sync, work, and react to errors. Eager or cooperative, static or not.

A member does one thing at a time, when told, so that a test decides the order of everything.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from equipoise.simulate import Call
from equipoise.wire.consumer_protocol import decode_subscription
from equipoise.wire.errors import ErrorCode
from tests.spec.context import TOPIC, Client, Context, assignment, partitions_in, protocols, subscription

PARTITIONS = 4
_AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}


class Stage(Enum):
    OUT = auto()  # must join
    JOINED = auto()  # must sync
    WORKING = auto()


class Simulated:
    """A client of the tests that behaves; `Consumer` of simulate runs the real member instead."""

    def __init__(self, ctx: Context, name: str, *, instance: str | None, cooperative: bool, version: int) -> None:
        self.client = Client(ctx, name, instance=instance, version=version)
        self.cooperative = cooperative
        self.stage = Stage.OUT
        self.owned: set[int] = set()
        self.members: list[Any] = []  # as the leader was told
        self.parked: tuple[Call, Callable[[Any], None]] | None = None
        self.past: list[tuple[str, int]] = []  # member ids and generations it has had

    @property
    def identity(self) -> str:
        """Who owns a partition: a static member under whichever id."""
        return self.client.instance or self.client.member_id

    @property
    def now(self) -> tuple[str, int]:
        return self.client.member_id, self.client.generation_id

    # -- requests

    def proceed(self, turn: int = 0) -> Call | None:
        """Sends what a client would send next, if it is not waiting for an answer."""
        if self.parked is not None:
            return None
        if self.stage is Stage.OUT:
            return self.join()
        return self.sync(turn) if self.stage is Stage.JOINED else self.heartbeat()

    def join(self, **overrides: Any) -> Call:
        if not self.cooperative:
            self.owned = set()  # an eager member stops before it joins
        claims = {TOPIC: sorted(self.owned)} if self.owned else None
        metadata = subscription(TOPIC, owned=claims, generation=self.client.generation_id if claims else -1)
        offered = overrides.pop("offered", protocols("range", metadata=metadata))
        return self._wait(self.client.join(offered=offered, **overrides), self._on_join)

    def sync(self, turn: int = 0) -> Call:
        shares = assign(self.members, turn) if self.members else {}
        return self._wait(self.client.sync({one: assignment(*share) for one, share in shares.items()}), self._on_sync)

    def heartbeat(self, hold_ms: int = 0) -> Call:
        call = self.client.heartbeat(hold_ms=hold_ms)
        if not call.is_parked:
            self._on_other(call.reply)
        return call

    def commit(self, offsets: dict[int, int]) -> Call:
        return self.client.commit(offsets)

    def leave(self) -> Call:
        call = self.client.leave()
        self.forget()
        return call

    def restart(self) -> Call:
        """A new process, which knows nothing but its group.instance.id."""
        self.forget()
        return self.join()

    def forget(self) -> None:
        self._remember()
        self.client.member_id, self.client.generation_id = "", -1
        self.stage, self.owned, self.parked = Stage.OUT, set(), None

    def disconnected(self) -> None:
        """Whatever it waited for will not come; it asks again."""
        self.parked = None

    # -- answers

    def _wait(self, call: Call, react: Callable[[Any], None]) -> Call:
        self.parked = (call, react)
        self.listen()
        return call

    def listen(self) -> None:
        """Takes the answer to what it waits for, if it is there."""
        if self.parked is not None and not self.parked[0].is_parked:
            (call, react), self.parked = self.parked, None
            react(call.reply)

    def _on_join(self, reply: Any) -> None:
        if reply.error_code == ErrorCode.NONE:
            self.stage, self.members = Stage.JOINED, reply.members if not reply.skip_assignment else []
        elif reply.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            self._on_error(ErrorCode(reply.error_code))

    def _on_sync(self, reply: Any) -> None:
        if reply.error_code == ErrorCode.NONE:
            self.owned = set(partitions_in(reply.assignment)) if reply.assignment else set()
            self.stage = Stage.WORKING
            self._remember()
        else:
            self._on_error(ErrorCode(reply.error_code))

    def _on_other(self, reply: Any) -> None:
        if reply.error_code != ErrorCode.NONE:
            self._on_error(ErrorCode(reply.error_code))

    def _on_error(self, error: ErrorCode) -> None:
        if error in _AGAIN:
            return
        self.stage = Stage.OUT
        if error is not ErrorCode.REBALANCE_IN_PROGRESS:
            self._remember()
            self.owned, self.client.generation_id = set(), -1
        if error not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self.client.member_id = ""

    def _remember(self) -> None:
        if self.client.member_id and self.now not in self.past:
            self.past.append(self.now)


def assign(members: list[Any], turn: int) -> dict[str, list[int]]:
    """Every partition to one member at most; what another still claims is left out, as cooperative assignors do."""
    ids = sorted(row.member_id for row in members)
    claims: dict[int, tuple[int, str]] = {}
    for row in members:
        said = decode_subscription(row.metadata)
        for partition in said.owned_partitions.get(TOPIC, []):
            claims[partition] = max(claims.get(partition, (-1, "")), (said.generation_id, row.member_id))
    shares: dict[str, list[int]] = {one: [] for one in ids}
    for partition in range(PARTITIONS):
        target = ids[(partition + turn) % len(ids)]
        if partition not in claims or claims[partition][1] == target:
            shares[target].append(partition)
    return shares
