"""One look at groups, for a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.console.edge import run_loop
from equipoise.console.options import ClusterOptions
from equipoise.views.advice import Advice, advise
from equipoise.views.entries import Entry
from equipoise.views.groups import summary_of
from equipoise.views.model import ClusterView, GroupView, Ms
from equipoise.watching.watcher import Watched, wall_time, watching
from equipoise.wire.errors import ErrorCode, KafkaError

HOUR_MS = 3_600_000


class Look(NamedTuple):
    """What a look has found. `entries`: rows of the journal and records, by group."""

    cluster: ClusterView
    entries: dict[str, tuple[list[Entry], list[Entry]]]

    def advice(self, group_id: str) -> list[Advice]:
        """What `equipoise history` would advise, by the same figures."""
        return advise(summary_of(group_id, *self.entries[group_id]))


def look(
    cluster: ClusterOptions,
    group_ids: Sequence[str] | None = None,
    *,
    back_ms: int | None = HOUR_MS,
    ages: bool = True,
    starts: bool = False,
) -> Look:
    """One look at these groups, or all; rebalances as far back as said."""

    async def once() -> Look:
        since = None if back_ms is None else Ms(max(0, wall_time() - back_ms))
        watched = Watched(None if group_ids is None else tuple(dict.fromkeys(group_ids)), since, ages, starts)
        async with watching(cluster.access(), watched) as watcher:
            found = await watcher.look()
            return Look(found, {one.group_id: watcher.store.entries(one.group_id) for one in found.groups})

    return run_loop(once())


def look_at(
    cluster: ClusterOptions, group_id: str, *, back_ms: int | None = HOUR_MS, ages: bool = True, past: bool = False
) -> Look:
    """One look at one group. KafkaError: it does not exist, or may not be described. With `past` a group that is gone
    will do, if its rebalances are known."""
    found = look(cluster, [group_id], back_ms=back_ms, ages=ages)
    (group,) = found.cluster.groups
    if not past or not group.rebalances:
        check_exists(group)
    return found


def check_exists(group: GroupView) -> None:
    """KafkaError: the group cannot be described."""
    if group.state is None:
        problem = next(iter(group.problems), None)
        if problem is None or problem.code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"there is no group {group.group_id!r}; check its name: `equipoise groups list` shows all",
            )
        raise KafkaError(problem.code, problem.message)
