"""Metrics of groups for Prometheus: families made from the views when they are asked for.

No label names a member or a client: their ids change with every restart. Groups and series beyond a limit are counted,
not shown. A counter by reason, or a histogram, appears with its first event: most groups have seen none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest

from equipoise.console.words import GROUP_STATES
from equipoise.histogram import Histogram
from equipoise.views.model import ClusterView, GroupView, HealthKind, Ms, PartitionLag, Source
from equipoise.watching.totals import Totals
from equipoise.watching.watcher import Watcher

MOST_GROUPS = 2_000
MOST_SERIES = 20_000  # of one metric by group and topic, by topic, or with --per-partition
LONGEST_LABEL = 512  # letters of a group's name: a client may give 32,767
Families = Iterator[Any]  # of prometheus_client


class Choice(NamedTuple):
    """Which groups are shown, and how finely."""

    patterns: tuple[str, ...] = ()
    per_partition: bool = False
    most: int = MOST_GROUPS
    most_series: int = MOST_SERIES


class Room:
    """The series that a metric may have. What has no room is counted under the name of its metric."""

    def __init__(self, most: int) -> None:
        self._left: dict[str, int] = {}
        self._most = most
        self.left_out: dict[str, float] = {}

    def take(self, metric: str) -> bool:
        """Whether there is room for one more."""
        left = self._left.setdefault(metric, self._most)
        if left > 0:
            self._left[metric] = left - 1
            return True
        self.left_out[metric] = self.left_out.get(metric, 0) + 1
        return False


class GroupCollector:
    """A collector of prometheus_client. A group that is gone disappears."""

    def __init__(
        self,
        watcher: Watcher,
        choice: Choice,
        lateness: Callable[[], float | None],
        view: Callable[[], ClusterView] | None = None,
    ) -> None:
        self._watcher = watcher
        self._choice = choice
        self._lateness = lateness  # seconds since all questions were answered; None: never
        self._view = view or watcher.view  # who keeps views need not make them again at each scrape

    def collect(self) -> Families:
        """All families, from what is known now."""
        groups = [one for one in self._view().groups if self._is_chosen(one)]
        shown = [one for one in groups if len(one.group_id) <= LONGEST_LABEL][: self._choice.most]
        room = Room(self._choice.most_series)
        yield from _of_groups(shown)
        yield from _of_lag(shown, room)
        if self._choice.per_partition:
            yield _of_partitions(shown, room)
        yield from _of_totals(shown, self._watcher)
        yield from _of_topics(self._watcher, room)
        yield from self._of_exporter()
        yield _gauge("groups_left_out", "Groups beyond the limit, in no other metric.", len(groups) - len(shown))
        yield _labelled_gauge("series_left_out", "Series beyond the limit.", room.left_out, label="metric")

    def _of_exporter(self) -> Families:
        watcher, late = self._watcher, self._lateness()
        yield _gauge("exporter_up", "1 if the cluster has answered the last questions.", int(watcher.is_answering))
        if late is not None:
            yield _gauge("exporter_source_lateness_seconds", "Since the cluster has answered everything.", late)
        text = "How long the last questions took."
        yield _labelled_gauge("exporter_poll_seconds", text, watcher.poll_seconds, label="api")

    def _is_chosen(self, group: GroupView) -> bool:
        patterns = self._choice.patterns
        return not patterns or any(fnmatchcase(group.group_id, one) for one in patterns)


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
        for name in GROUP_STATES:
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
    return GaugeMetricFamily(f"equipoise_{name}", text, value=value)


def _labelled_gauge(name: str, text: str, values: Mapping[str, float], *, label: str) -> Any:
    family = GaugeMetricFamily(f"equipoise_{name}", text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


# -- lag, and the topics it is on


def _of_lag(groups: Sequence[GroupView], room: Room) -> Families:
    """By group and topic. Where a partition's age is unknown, so is that of its topic, unless it is read to the end."""
    records = GaugeMetricFamily("equipoise_group_lag_records", "Records not read.", labels=["group", "topic"])
    seconds = GaugeMetricFamily(
        "equipoise_group_lag_seconds", "Age of the oldest record not read.", labels=["group", "topic"]
    )
    most = GaugeMetricFamily("equipoise_group_lag_seconds_max", "Of all topics of the group.", labels=["group"])
    for group in groups:
        for topic, rows in _by_topic(group).items():
            lags = [one.lag for one in rows if one.lag is not None]
            if not lags or not room.take(records.name):
                continue
            records.add_metric([group.group_id, topic], sum(lags))
            if (age := _age(rows)) is not None:
                seconds.add_metric([group.group_id, topic], age / 1000)
        if group.lag.behind_ms is not None:
            most.add_metric([group.group_id], group.lag.behind_ms / 1000)
    yield records
    yield seconds
    yield most


def _by_topic(group: GroupView) -> dict[str, list[PartitionLag]]:
    found: dict[str, list[PartitionLag]] = {}
    for one in group.partitions:
        found.setdefault(one.topic, []).append(one)
    return found


def _age(rows: Sequence[PartitionLag]) -> int | None:
    """0 where nothing waits."""
    if any(one.behind_ms is None and one.lag for one in rows):
        return None
    return max((one.behind_ms or 0 for one in rows), default=None)


def _of_partitions(groups: Sequence[GroupView], room: Room) -> Any:
    labels = ["group", "topic", "partition"]
    family = GaugeMetricFamily("equipoise_group_partition_lag_records", "Records not read.", labels=labels)
    for group in groups:
        for one in group.partitions:
            if one.lag is not None and room.take(family.name):
                family.add_metric([group.group_id, one.topic, str(one.partition)], one.lag)
    return family


def _of_topics(watcher: Watcher, room: Room) -> Families:
    """Of topics that groups read. Where one partition's end is unknown, the sum is of the others."""
    ends: dict[str, int] = {}
    partitions: dict[str, int] = {}
    for (topic, _), end in watcher.store.ends().items():
        ends[topic] = ends.get(topic, 0) + end
        partitions[topic] = partitions.get(topic, 0) + 1
    family = GaugeMetricFamily("equipoise_topic_end_offset", "Sum of the ends of partitions.", labels=["topic"])
    counts = GaugeMetricFamily("equipoise_topic_partitions", "Partitions that groups read.", labels=["topic"])
    sizes = GaugeMetricFamily("equipoise_topic_size_bytes", "Bytes on disk, of one replica.", labels=["topic"])
    known = watcher.store.sizes()
    for topic, end in sorted(ends.items()):
        if room.take(family.name):
            family.add_metric([topic], end)
            counts.add_metric([topic], partitions[topic])
            if topic in known:
                sizes.add_metric([topic], known[topic])
    yield family
    yield counts
    yield sizes


# -- what has happened since the exporter began


def _of_totals(groups: Sequence[GroupView], watcher: Watcher) -> Families:
    totals = [(one.group_id, watcher.store.totals(one.group_id)) for one in groups]
    source = watcher.store.source
    by_journal = totals if source is Source.JOURNAL else []  # only the coordinator itself tells of these
    followed = totals if source is not Source.POLLING else []
    yield _labelled("rebalances", "Rebalances by their reason.", totals, lambda one: one.rebalances, label="trigger")
    yield _counted("rebalances_failed", "Rebalances that the next one overtook.", by_journal, lambda one: one.failed)
    yield _counted("partitions_moved", "Partitions with another owner.", followed, lambda one: one.moved)
    yield _labelled("departures", "Members gone, by reason.", totals, lambda one: one.departures, label="departure")
    yield _counted("fenced", "Requests of past incarnations of static members.", by_journal, lambda one: one.fenced)
    yield _counted("commits", "Offsets committed, where they can be followed.", followed, lambda one: one.commits)
    yield _labelled("commits_refused", "Commits refused, by reason.", totals, lambda one: one.refused, label="refusal")
    phases = HistogramMetricFamily(
        "equipoise_group_rebalance_phase_seconds", "Phases of rebalances.", labels=["group", "phase"]
    )
    dark = HistogramMetricFamily(
        "equipoise_group_partition_dark_seconds", "Partitions without owner.", labels=["group"]
    )
    for name, one in totals:
        for phase, histogram in one.phases.items():
            if any(histogram.counts):
                phases.add_metric([name, phase], *_buckets(histogram))
        if any(one.dark.counts):
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
    for bound, count in zip((*histogram.bounds_s, "+Inf"), histogram.counts, strict=True):
        so_far += count
        found.append((str(bound), so_far))
    return found, histogram.total_s


def lateness(answered: Ms | None, now: Ms) -> float | None:
    """Seconds since the last answers."""
    return None if answered is None else max(0, now - answered) / 1000
