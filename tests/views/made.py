"""Rows of the journal, records of groups and rebalances, made by hand."""

from __future__ import annotations

from typing import Any

from equipoise.coordinator.reasons import NOBODY, Cause, Trigger, Who
from equipoise.views.model import Dark, Guess, Ms, RebalanceView, Source

Entry = dict[str, Any]
MINUTE = 60_000


def who(client: str, host: str = "10.0.0.1", instance: str | None = None) -> Who:
    return Who(f"{client}-1", client, host, instance)


def rebalance(
    at: int,
    cause: Cause | Guess,
    *,
    key: str = "1",
    dark: tuple[Dark, ...] | None = None,
    took: int | None = 100,
    members: int = 2,
) -> RebalanceView:
    return RebalanceView(
        key=key,
        group_id="g",
        old_generation=0,
        generation=1,
        started=None if took is None else Ms(at - took),
        ended=Ms(at),
        cause=cause,
        phases=None,
        members=members,
        protocol="range",
        moved=(),
        kept=0,
        revoked=(),
        dark=dark,
        source=Source.JOURNAL,
    )


def caused(trigger: Trigger, client: str = "", host: str = "10.0.0.1", said: str | None = None) -> Cause:
    return Cause(trigger, who(client, host) if client else NOBODY, said)
