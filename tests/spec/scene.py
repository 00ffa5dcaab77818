"""A group with members of every kind, brought into a state."""

from __future__ import annotations

from equipoise.coordinator.classic.states import State
from equipoise.simulate import Call
from tests.spec.context import Context

EMPTY, PR, CR, STABLE, DEAD = State


class Scene:
    """A group in a state, with a leader a, followers b and s (static, id i), and p, whose id is reserved."""

    def __init__(self, ctx: Context, state: State | None) -> None:
        self.ctx = ctx
        self.a, self.b = ctx.client("a"), ctx.client("b")
        self.s = ctx.client("s", instance="i")
        self.p = ctx.client("p")
        self.parked: Call | None = None
        if state is None:
            return
        if state is EMPTY:
            ctx.stable(self.a, self.b, self.s)
            ctx.leave((self.a.member_id, None), (self.b.member_id, None), ("", "i"))
        elif state is CR:
            ctx.completing(self.a, self.b, self.s)
        else:
            ctx.stable(self.a, self.b, self.s)
        if state is PR:
            self.parked = ctx.client("new").enter(version=3)
        self.p.join()
        if state is DEAD:
            ctx.close()
        else:
            assert ctx.state is state
