"""`python -m bench joins`: a member joins a group of stock consumers, eager, cooperative, incremental and consumer."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.figures import Figure
from bench.machine import check_machine, progress
from bench.results import Results
from bench.versus.rebalances import Rebalance, measure_rebalance
from bench.versus.run import create_topic
from equipoise.broker.config import rows
from proving.brokers import EquipoiseBroker
from proving.members.events import Place, Span
from proving.members.fleet import Fleet, Members, places_of
from proving.members.hosts import CONSUMER, Membership

MEMBERS, PARTITIONS = 4, 12
CLIENT = "confluent-kafka"
_TOPIC = "topic"
_CALM = 7.0  # seconds: longer than any heartbeat interval
NOTES = (
    f"{MEMBERS} {CLIENT} consumers with default settings share {PARTITIONS} partitions; one more joins. Eager and "
    "cooperative: a strict broker, which has Kafka's timing. Incremental: the same cooperative consumers on a broker "
    "that rebalances incrementally. Consumer: group.protocol=consumer. Whole: from the start of the new member to the "
    "last assignment. Unowned: the time for which a partition had no owner, the mean of all.",
)


class Way(NamedTuple):
    """To rebalance: the members' assignor, and the broker's settings."""

    assignor: str
    settings: Mapping[str, object]


_ALL = {
    "eager": Way("range", {"strict": "true"}),
    "cooperative": Way("cooperative-sticky", {"strict": "true"}),
    "incremental": Way("cooperative-sticky", {"group.rebalance.incremental": "cooperative"}),
    "consumer": Way(CONSUMER, {}),
}
WAYS = {name: way for name, way in _ALL.items() if way.settings.keys() <= rows().keys()}  # those that are served


class Seen(NamedTuple):
    """One join: when the new member was started, who owned what before and after, and the figures."""

    began: float
    spans: Mapping[Place, list[Span]]
    rebalance: Rebalance


def figures() -> list[Figure]:
    return [
        figure
        for way in WAYS
        for figure in (Figure(f"{way}_whole", f"{way}: whole", "s"), Figure(f"{way}_unowned", f"{way}: unowned", "s"))
    ]


def run_bench(as_json: bool, picture: Path | None) -> None:
    """Measures for a minute and prints a table, or one JSON object."""
    check_machine("joins")
    results = Results("joins", figures(), NOTES)
    began = time.perf_counter()
    seen = {}
    with progress(len(WAYS)) as advance:
        for name, way in WAYS.items():
            seen[name] = watch_join(way)
            results.add(f"{name}_whole", seen[name].rebalance.whole)
            results.add(f"{name}_unowned", seen[name].rebalance.unowned)
            advance()
    if picture is not None:
        from bench.joins.picture import draw

        draw(seen, picture)
    results.print(as_json, time.perf_counter() - began)


def watch_join(way: Way, calm: float = _CALM) -> Seen:
    """The group is calm before: every member has sent a heartbeat since the last rebalance."""
    with ExitStack() as running:
        broker = running.enter_context(EquipoiseBroker(way.settings))
        create_topic(broker, _TOPIC, PARTITIONS)
        log = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="equipoise-joins-")), "log")
        fleet = running.enter_context(Fleet(broker.bootstrap_servers, log))
        members = running.enter_context(Members(fleet, Membership.stock("group", (_TOPIC,), way.assignor)))
        for number in range(1, MEMBERS + 1):
            members.join(f"member {number}", CLIENT)
        members.wait_settled(places_of(_TOPIC, PARTITIONS))
        time.sleep(calm)
        told, began = members.now, time.monotonic()
        members.join("newcomer", CLIENT)
        members.wait_settled(places_of(_TOPIC, PARTITIONS))
        return Seen(began, members.ledger.spans(), measure_rebalance(members.ledger, told, began))
