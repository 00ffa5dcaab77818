"""The demo with Spark: queries and a stock consumer share one group, through a join, a kill and a return.

At the end every order is accounted for, every rebalance has its reason, and a picture shows the owners.
"""

from __future__ import annotations

import importlib.util
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.markup import escape

from equipoise.console import words
from equipoise.console.demo.accounts import Account, account, read_shipped
from equipoise.console.demo.members import GROUP, DemoQuery, PlainConsumer
from equipoise.console.demo.orders import PARTITIONS
from equipoise.console.demo.picture import draw
from equipoise.console.demo.stage import Stage
from equipoise.wire.errors import UsageError

PLAIN = "plain consumer"
QUERIES = "query-1", "query-2", "query-3"
KILLED = QUERIES[0]
_FLOW_S = 8.0  # of quiet between two events
_NEEDED = {"confluent_kafka": "demo", "matplotlib": "plots", "pyspark": "spark", "pyarrow": "spark"}


def run_demo(picture: Path) -> bool:
    """Returns whether the accounts are right."""
    _check_needs()
    with tempfile.TemporaryDirectory(prefix="equipoise-demo-") as directory, ExitStack() as stack:
        stage = Stage((PLAIN, *QUERIES), stack)
        demo = _Demo(stage, Path(directory))
        with stage.playing():
            demo.play()
        found = demo.accounts()
        demo.tell_rebalances()
        demo.draw(picture)
        stage.tell(found)
        stage.tell_console()
        return found.is_right


def _check_needs() -> None:
    missing = {extra for module, extra in _NEEDED.items() if importlib.util.find_spec(module) is None}
    if missing:
        raise UsageError(
            f"the demo needs more than is installed: pip install 'equipoise[{','.join(sorted(missing))}]', or see "
            "`equipoise demo --without-spark`"
        )
    from equipoise.java import java_home

    java_home()


class _Demo:
    def __init__(self, stage: Stage, directory: Path) -> None:
        self.stage = stage
        self.directory = directory
        self.killed_at = self.back_at = 0.0

    def play(self) -> None:
        stage = self.stage
        self.plain = PlainConsumer(PLAIN, stage.broker.bootstrap_servers)
        stage.enter(PLAIN, self.plain, self.plain.leave)
        self.begin_query(QUERIES[0])
        self.begin_query(QUERIES[1])
        stage.until_shared("two Spark queries start, and share the group with a plain consumer", 3, "three share")
        stage.flow("all three read", _FLOW_S)
        self.begin_query(QUERIES[2])
        stage.until_shared("a third query starts and joins", 4, f"{QUERIES[2]} joined")
        stage.flow("all four read", _FLOW_S)
        self.kill()
        taken_over = f"{KILLED} was killed; its connection is lost, and the others get its partitions"
        stage.until_shared(taken_over, 3, "taken over")
        stage.flow("the three that are left read on", _FLOW_S)
        self.back_at = stage.watch.now()
        self.begin_query(KILLED)
        stage.until_shared(f"{KILLED} is back with its checkpoint, and finishes what it had begun", 4, "back")
        stage.flow("all four read", _FLOW_S)
        stage.leave()

    def begin_query(self, name: str) -> None:
        query = DemoQuery(name, self.directory, self.stage.broker.bootstrap_servers)
        self.stage.enter(name, query, query.kill)

    def kill(self) -> None:
        query = self.stage.members.pop(KILLED)
        assert isinstance(query, DemoQuery)
        self.killed_at = self.stage.watch.now()
        self.stage.watch.note(f"{KILLED} killed")
        query.kill()

    def accounts(self) -> Account:
        outputs = read_shipped(self.stage.broker.bootstrap_servers, QUERIES)
        return account(self.stage.orders.written, [*outputs, self.plain.output()])

    def tell_rebalances(self) -> None:
        self.stage.say(f"Rebalances of {GROUP!r}:")
        for at, entry in self.stage.watch.rebalances():
            took = words.duration((entry.ended or entry.started) - entry.started)
            moved = f"{len(entry.moved)} of {PARTITIONS} partitions moved" if entry.moved else "nothing moved"
            self.stage.say(
                f"  {at:5.1f} s  generation {entry.generation:>2}: {escape(words.cause(entry.cause))}; {moved}, {took}"
            )

    def draw(self, picture: Path) -> None:
        watch = self.stage.watch
        draw(
            picture,
            watch.looks,
            members=(PLAIN, *QUERIES),
            partitions=PARTITIONS,
            events=watch.events,
            dead=(KILLED, self.killed_at, self.back_at),
        )
        self.stage.say(f"Who had which partition when: {escape(str(picture.absolute()))}")
