"""The figures of the coordinator bench, with their aims, and the two ways to print them."""

from __future__ import annotations

from typing import NamedTuple

from bench.figures import Figure
from bench.results import Results

PIPELINED = 16  # requests under way on a connection, where not one
STRATEGIES = {"range": "eager", "cooperative-sticky": "cooperative"}
HOLDS = {"without_hold": 0, "with_hold": 5_000}  # group.heartbeat.hold.max.ms; the second is its default
NOTES = (
    "Each verdict is of the best round, because what else runs on a machine can only make it worse; but of rebalances "
    "of stock members, which depend on chance, all count: the ratio is that of the means over joins and leaves.",
    "Rates are requests per CPU second of the broker process, all its threads, and its part of the kernel: one core "
    "can do no more. Threads of the kernel that sync files are not counted. The wall rate is what this machine reached "
    "while the load was made on the same cores; below it stands what the load generator itself spent, which must be "
    "less than the broker's for the wall rate to be its.",
    "A commit is answered when it is durable (fdatasync). Load is one request under way per connection, 1,000 of them, "
    "as clients do it, unless it says pipelined. What it costs the machine only to receive and to send so often is "
    "shown by the first row: the same event loop and the same load, but nobody looks at the requests.",
    "Cold: from the first JoinGroup to the last SyncGroup answer of a group nobody knew, member ids asked for first, "
    "with Kafka's initial rebalance delay of 3 s, which ends after 6 s when members join in between. All back: "
    "the same for a group whose members have all left before, so that the delay ends when they are back.",
    "The heartbeats of the p99 are those of other groups, one each millisecond from a process of its own, while 1,000 "
    "members are told of a rebalance all at once, join, and are given their assignments.",
    "An idle group is Stable, with one member and 4 offsets. The stored offsets lie in 1,000 groups.",
    "Stock members are 8 confluent-kafka consumers with default settings that have nothing to consume or commit. A "
    "join counts from the start of the consumer, a leave from its close(), to the last assignment of all the others.",
)


class Sizes(NamedTuple):
    """How much is measured."""

    rounds: int
    seconds: float  # of load in each round
    connections: int
    groups: tuple[int, ...]  # members; the last is also formed cold
    restless: int  # members of the group that rebalances while others are timed
    idle_groups: int
    offsets: int
    restarts: int
    stock_rounds: int
    strategies: tuple[str, ...]


FULL = Sizes(3, 1.0, 1000, (10, 100, 1000, 5000), 1000, 10_000, 1_000_000, 3, 3, tuple(STRATEGIES))
QUICK = Sizes(2, 0.5, 500, (10, 100, 1000), 1000, 1000, 100_000, 1, 1, ("range",))


def figures(sizes: Sizes) -> list[Figure]:
    """Aims are for the full sizes; smaller ones are held against the same."""
    largest = sizes.groups[-1]
    return [
        *_load_figures("echo", "a loop that answers unread"),
        *_load_figures("heartbeats", "heartbeats", 100_000),
        *_load_figures("heartbeats_pipelined", f"heartbeats, {PIPELINED} pipelined", 100_000),
        *_load_figures("commits", "commits of 1 partition", 20_000),
        *_load_figures("commits_pipelined", f"commits of 1 partition, {PIPELINED} pipelined", 20_000),
        *_load_figures("commits_of_10", "commits of 10 partitions"),
        Figure(f"stable_{largest}_cold", f"{largest:,} members to Stable, cold", "s", 10.0),
        *(Figure(f"stable_{count}", f"{count:,} members to Stable, all back", "s") for count in sizes.groups),
        Figure(f"rebalance_{sizes.restless}", f"rebalance of {sizes.restless:,}, told at once", "s"),
        Figure("heartbeat_p99", "p99 of others' heartbeats during it", "ms", 20.0),
        Figure("resident_idle_groups", f"resident, {sizes.idle_groups:,} idle groups", "MB", 300.0),
        Figure("idle_group", "memory of one of them", "KB"),
        Figure("restart", f"restart with {sizes.offsets:,} offsets", "s", 5.0),
        *(figure for strategy in sizes.strategies for figure in _stock_figures(STRATEGIES[strategy])),
    ]


def _load_figures(key: str, title: str, aim: float | None = None) -> list[Figure]:
    return [
        Figure(key, f"{title}, per CPU second", "1/s", aim),
        Figure(f"{key}_wall", f"{title}, wall", "1/s"),
        Figure(f"{key}_generator", f"{title}, generator's CPU share", "ratio"),
    ]


def _stock_figures(kind: str) -> list[Figure]:
    rows = [
        Figure(f"{kind}_{what}_{hold}", f"stock {kind} {what}, {hold.replace('_', ' ')}", "s")
        for what in ("join", "leave")
        for hold in HOLDS
    ]
    return [
        *rows,
        Figure(f"{kind}_ratio", f"stock {kind}, without hold / with", "times", 10.0 if kind == "eager" else None),
    ]


class CoordinatorResults(Results):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__("coordinator", figures(sizes), NOTES, sizes=sizes._asdict())
        self.sizes = sizes
