"""Small views for tests: groups of a few partitions whose rebalances are written down one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.coordinator.reasons import Cause, Trigger, Who
from equipoise.views.model import (
    BrokerView,
    ClusterView,
    Dark,
    GroupType,
    GroupView,
    Health,
    HealthKind,
    LagView,
    MemberView,
    Move,
    Ms,
    PartitionLag,
    Phases,
    RebalanceView,
    Source,
)

T0 = Ms(1_792_764_000_000)  # 14:00 UTC
WINDOW = 6 * 3_600_000


def who(name: str, *, client: str | None = None, instance: str | None = None) -> Who:
    return Who(name, name if client is None else client, "/10.0.0.1", instance)


def rebalance(generation: int, at: int, moves: Mapping[int, tuple[str | None, str]], **more: Any) -> RebalanceView:
    """Generation N, ended `at` ms after T0; partition to its old and new owner."""
    dark = more.pop("dark", {})
    values: dict[str, Any] = {
        "key": str(generation),
        "group_id": "etl",
        "old_generation": generation - 1,
        "generation": generation,
        "started": Ms(T0 + at - 10),
        "ended": Ms(T0 + at),
        "cause": Cause(Trigger.MEMBER_JOINED, who("a")),
        "phases": Phases(0, 6, 3, 1),
        "members": 2,
        "protocol": "range",
        "moved": tuple(Move("orders", number, *owners) for number, owners in moves.items()),
        "kept": 0,
        "revoked": (),
        "dark": None if dark is None else tuple(Dark("orders", number, ms) for number, ms in dark.items()),
        "source": Source.JOURNAL,
    }
    return RebalanceView(**values | more)


def member(member_id: str, partitions: Sequence[int] = (), **more: Any) -> MemberView:
    values: dict[str, Any] = {
        "member_id": member_id,
        "group_instance_id": None,
        "client_id": member_id,
        "client_host": "/10.0.0.1",
        "partitions": tuple(("orders", number) for number in partitions),
        "topics": ("orders",),
        "lag": 0,
    }
    return MemberView(**values | more)


def group(*rebalances: RebalanceView, **more: Any) -> GroupView:
    values: dict[str, Any] = {
        "group_id": "etl",
        "type": GroupType.CLASSIC,
        "state": "Stable",
        "protocol": "range",
        "generation": len(rebalances),
        "coordinator_id": 1,
        "members": (),
        "partitions": (),
        "lag": LagView(lag=0),
        "rebalances": rebalances,
        "rebalances_last_hour": len(rebalances),
        "health": Health(kind=HealthKind.FINE),
        "source": Source.JOURNAL,
        "as_of": Ms(T0 + 10_000),
        "seen_since": T0,
    }
    return GroupView(**values | more)


def partition(number: int, **more: Any) -> PartitionLag:
    values: dict[str, Any] = {
        "topic": "orders",
        "partition": number,
        "committed": 5,
        "log_start": 0,
        "log_end": 7,
        "lag": 2,
    }
    return PartitionLag(**values | more)


def cluster(*groups: GroupView, **more: Any) -> ClusterView:
    broker = BrokerView(node_id=1, host="localhost", port=9092, rack=None, is_controller=True)
    values: dict[str, Any] = {
        "cluster_id": "test",
        "brokers": (broker,),
        "groups": groups,
        "source": Source.JOURNAL,
        "as_of": max((one.as_of for one in groups), default=T0),
    }
    return ClusterView(**values | more)
