"""The settings of a plan: the group, its clients, its broker. Times are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """By default those of Kafka and its Java clients. What the network and the application do is a guess."""

    members: int
    partitions: int
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    consumer_heartbeat_interval_ms: int = 5_000  # group.consumer.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  # group.consumer.assignment.interval.ms
    auto_commit_interval_ms: int = 5_000
    round_trip_ms: float = 2.0
    callback_ms: float = 0.0  # how long a listener takes to give partitions back
    assign_ms: float = 0.0  # how long a leader, or the coordinator, takes to assign
    restart_ms: int = 10_000  # from the end of a process to the first request of the next
    pause_ms: int = 60_000  # of a member, in gc-pause
    window_ms: int = 60_000  # in which all restart, in deploy-storm, or new ones come, in scale-out
    affected: int = 0  # members that crash, pause or come; 0: one in a hundred, in scale-out one in four
    held: bool = False  # the broker holds heartbeats, and answers them when there is news, as Equipoise does
    spread: bool = False  # members keep heartbeats of their own after a rebalance, as librdkafka's do
    seed: int = 0

    @property
    def commit_loss_ms(self) -> float:
        """How far back the last commit of a member is that has had no time for one, on average."""
        return self.auto_commit_interval_ms / 2
