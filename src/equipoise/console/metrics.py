"""Metrics of groups for Prometheus: families made from the views when they are asked for.

No label names a member or a client: their ids change with every restart. Groups beyond a limit are counted, not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest

from equipoise.views.model import GroupView, HealthKind, Ms
from equipoise.watching.store import BOUNDS_S, Histogram, Totals
from equipoise.watching.watcher import Watcher

MOST_GROUPS = 2_000
MOST_SERIES = 20_000  # with --per-partition
_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Assigning", "Reconciling", "Dead")
Families = Iterator[Any]  # of prometheus_client


class Choice(NamedTuple):
    """Which groups are shown, and how finely."""

    patterns: tuple[str, ...] = ()
    per_partition: bool = False
    most: int = MOST_GROUPS


class GroupCollector:
    """A collector of prometheus_client. A group that is gone disappears."""

    def __init__(self, watcher: Watcher, choice: Choice, lateness: Callable[[], float | None]) -> None:
        self._watcher = watcher
        self._choice = choice
        self._lateness = lateness  # seconds since all questions were answered; None: never

    def collect(self) -> Families:
        """All families, from what is known now."""
        groups = [one for one in self._watcher.view().groups if self._is_chosen(one)]
        shown, left_out = groups[: self._choice.most], max(0, len(groups) - self._choice.most)
        yield from _of_groups(shown)
        yield from _of_lag(shown, per_partition=self._choice.per_partition)
        yield from _of_totals(shown, self._watcher)
        yield from self._of_topics()
        yield _gauge("equipoise_groups_left_out", "Groups beyond the limit, in no other metric.", left_out)
        late = self._lateness()
        yield _gauge("equipoise_exporter_up", "1 if the cluster has answered.", int(late is not None))
        if late is not None:
            yield _gauge("equipoise_source_lateness_seconds", "Since the cluster has answered everything.", late)

    def _is_chosen(self, group: GroupView) -> bool:
        patterns = self._choice.patterns
        return not patterns or any(fnmatchcase(group.group_id, one) for one in patterns)

    def _of_topics(self) -> Families:
        ends: dict[str, int] = {}
        partitions: dict[str, int] = {}
        for (topic, _), end in self._watcher.store.ends().items():
            ends[topic] = ends.get(topic, 0) + end
            partitions[topic] = partitions.get(topic, 0) + 1
        family = GaugeMetricFamily("equipoise_topic_end_offset", "Sum of the ends of partitions.", labels=["topic"])
        counts = GaugeMetricFamily("equipoise_topic_partitions", "Partitions that groups read.", labels=["topic"])
        for topic, end in sorted(ends.items()):
            family.add_metric([topic], end)
            counts.add_metric([topic], partitions[topic])
        yield family
        yield counts


def registry_of(collector: GroupCollector) -> Callable[[], bytes]:
    """The text of all metrics, made at each call."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return lambda: bytes(generate_latest(registry))


# -- what groups are


def _of_groups(groups: Sequence[GroupView]) -> Families:
    state = GaugeMetricFamily("equipoise_group_state", "1 for the present state.", labels=["group", "state"])
    health = GaugeMetricFamily("equipoise_group_health", "1 for the present health.", labels=["group", "health"])
    for group in groups:
        for name in _STATES:
            state.add_metric([group.group_id, name], int(group.state == name))
        for kind in HealthKind:
            health.add_metric([group.group_id, kind.value], int(group.health.kind is kind))
    yield state
    yield health
    yield _by_group("members", "Members.", groups, lambda one: len(one.members))
    yield _by_group("members_idle", "Members without a partition.", groups, _idle)
    yield _by_group("generation", "Generation, or epoch.", groups, lambda one: one.generation)
    yield _by_group("partitions_assigned", "Partitions that a member has.", groups, _assigned)


def _idle(group: GroupView) -> int:
    return sum(not one.partitions for one in group.members)


def _assigned(group: GroupView) -> int:
    return sum(len(one.partitions) for one in group.members)


def _by_group(name: str, text: str, groups: Sequence[GroupView], value: Callable[[GroupView], int | None]) -> Any:
    """What is unknown has no sample."""
    family = GaugeMetricFamily(f"equipoise_group_{name}", text, labels=["group"])
    for group in groups:
        known = value(group)
        if known is not None:
            family.add_metric([group.group_id], known)
    return family


def _gauge(name: str, text: str, value: float) -> Any:
    return GaugeMetricFamily(name, text, value=value)


# -- lag


def _of_lag(groups: Sequence[GroupView], *, per_partition: bool) -> Families:
    records = GaugeMetricFamily("equipoise_group_lag_records", "Records not read.", labels=["group", "topic"])
    seconds = GaugeMetricFamily(
        "equipoise_group_lag_seconds", "Age of the oldest record not read.", labels=["group", "topic"]
    )
    most = GaugeMetricFamily("equipoise_group_lag_seconds_max", "Of all topics of the group.", labels=["group"])
    for group in groups:
        lags: dict[str, int] = {}
        ages: dict[str, int] = {}
        for one in group.partitions:
            if one.lag is not None:
                lags[one.topic] = lags.get(one.topic, 0) + one.lag
            if one.behind_ms is not None:
                ages[one.topic] = max(ages.get(one.topic, 0), one.behind_ms)
        for topic, lag in lags.items():
            records.add_metric([group.group_id, topic], lag)
        for topic, age in ages.items():
            seconds.add_metric([group.group_id, topic], age / 1000)
        if group.lag.behind_ms is not None:
            most.add_metric([group.group_id], group.lag.behind_ms / 1000)
    yield records
    yield seconds
    yield most
    if per_partition:
        yield _of_partitions(groups)


def _of_partitions(groups: Sequence[GroupView]) -> Any:
    labels = ["group", "topic", "partition"]
    family = GaugeMetricFamily("equipoise_group_partition_lag_records", "Records not read.", labels=labels)
    left = MOST_SERIES
    for group in groups:
        for one in group.partitions:
            if one.lag is not None and left > 0:
                family.add_metric([group.group_id, one.topic, str(one.partition)], one.lag)
                left -= 1
    return family


# -- what has happened since the exporter began


def _of_totals(groups: Sequence[GroupView], watcher: Watcher) -> Families:
    totals = [(one.group_id, watcher.store.totals(one.group_id)) for one in groups]
    yield _labelled("rebalances", "Rebalances by their reason.", totals, lambda one: one.rebalances, label="trigger")
    yield _counted("rebalances_failed", "Rebalances that the next one overtook.", totals, lambda one: one.failed)
    yield _counted("partitions_moved", "Partitions with another owner.", totals, lambda one: one.moved)
    yield _labelled("departures", "Members gone, by reason.", totals, lambda one: one.departures, label="departure")
    yield _counted("fenced", "Requests of past incarnations of static members.", totals, lambda one: one.fenced)
    yield _counted("commits", "Offsets committed, where they can be followed.", totals, lambda one: one.commits)
    yield _labelled("commits_refused", "Commits refused, by reason.", totals, lambda one: one.refused, label="refusal")
    phases = HistogramMetricFamily(
        "equipoise_group_rebalance_phase_seconds", "Phases of rebalances.", labels=["group", "phase"]
    )
    dark = HistogramMetricFamily(
        "equipoise_group_partition_dark_seconds", "Partitions without owner.", labels=["group"]
    )
    for name, one in totals:
        for phase, histogram in one.phases.items():
            phases.add_metric([name, phase], *_buckets(histogram))
        dark.add_metric([name], *_buckets(one.dark))
    yield phases
    yield dark


def _counted(name: str, text: str, totals: Sequence[tuple[str, Totals]], value: Callable[[Totals], int]) -> Any:
    family = CounterMetricFamily(f"equipoise_group_{name}", text, labels=["group"])
    for group, one in totals:
        family.add_metric([group], value(one))
    return family


def _labelled(
    name: str, text: str, totals: Sequence[tuple[str, Totals]], values: Callable[[Totals], Any], *, label: str
) -> Any:
    family = CounterMetricFamily(f"equipoise_group_{name}", text, labels=["group", label])
    for group, one in totals:
        for key, count in sorted(values(one).items()):
            family.add_metric([group, key], count)
    return family


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, int]], float]:
    """Counts up to each bound, as Prometheus has them."""
    so_far, found = 0, []
    for bound, count in zip((*BOUNDS_S, "+Inf"), histogram.counts, strict=True):
        so_far += count
        found.append((str(bound), so_far))
    return found, histogram.total_s


def lateness(answered: Ms | None, now: Ms) -> float | None:
    """Seconds since the last answers."""
    return None if answered is None else max(0, now - answered) / 1000
