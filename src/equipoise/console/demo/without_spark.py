"""`equipoise demo --without-spark`: three stock consumers share a group, one leaves. Ten seconds, and no Java."""

from __future__ import annotations

import importlib.util
from contextlib import ExitStack

from rich.markup import escape

from equipoise.console import words
from equipoise.console.demo.accounts import account
from equipoise.console.demo.members import GROUP, PlainConsumer
from equipoise.console.demo.stage import Stage
from equipoise.wire.errors import UsageError

NAMES = "consumer-1", "consumer-2", "consumer-3"
_FLOW_S = 2.0  # of quiet between two events
_COMMIT_S = 3.0  # seldom: a commit ends the heartbeat that the broker holds to tell of the next rebalance


def run_small_demo() -> bool:
    """Returns whether the accounts are right."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise UsageError("the demo needs a stock client: pip install 'equipoise[demo]'")
    with ExitStack() as stack:
        stage = Stage(NAMES, stack)
        consumers = [PlainConsumer(name, stage.broker.bootstrap_servers, _COMMIT_S) for name in NAMES]
        with stage.playing():
            for consumer in consumers:
                stage.enter(consumer.name, consumer, consumer.leave)
            stage.until_shared("three confluent-kafka consumers share the group", 3, "three share")
            stage.flow("all three read", _FLOW_S)
            stage.members.pop(NAMES[0]).leave()
            stage.until_shared(f"{NAMES[0]} leaves; the others get its partitions", 2, "taken over")
            rebalance = stage.broker.groups[GROUP].rebalances[-1]
            stage.flow("the two that are left read on", _FLOW_S)
            stage.leave()
        for line in words.explain(rebalance):
            stage.say(f"  {escape(line)}")
        found = account(stage.orders.written, [consumer.output() for consumer in consumers])
        stage.tell(found)
        stage.tell_console()
        stage.say("Next: [bold]equipoise serve --memory[/bold], and point your own client at it.")
        return found.is_right
