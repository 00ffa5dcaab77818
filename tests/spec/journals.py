"""What tests of the journal share."""

from __future__ import annotations

from equipoise.coordinator.classic.states import State
from equipoise.coordinator.journal import Rebalance
from tests.spec.context import (
    TOPIC,
    Client,
    Context,
    assignment,
    protocols,
    subscription,
)

EMPTY, PR, CR, STABLE, DEAD = State
OTHER = protocols("range", metadata=subscription("other"))
HOST = "/10.0.0.1"


def cooperative(*owned: int) -> list[tuple[str, bytes]]:
    return protocols("range", metadata=subscription(TOPIC, owned={TOPIC: list(owned)} if owned else None, generation=1))


def finish(ctx: Context, **shares: list[int]) -> Rebalance:
    """The leader hands out the partitions by client names; the entry of the rebalance that ends so."""
    group = ctx.group()
    by_id = {member_id: assignment(*shares.get(member.client_id, [])) for member_id, member in group.members.items()}
    for member_id in group.members:
        if member_id != group.leader:
            ctx.sync(("g", member_id, group.generation_id, None), {}, protocol=("consumer", group.protocol_name))
    leader = group.leader or ""
    ctx.sync(("g", leader, group.generation_id, None), by_id, protocol=("consumer", group.protocol_name))
    return ctx.journal()[-1]


def heartbeats(ctx: Context, ms: int, *clients: Client) -> None:
    for _ in range(ms // 5_000):
        ctx.advance(5_000)
        for client in clients:
            client.heartbeat()
