"""`equipoise demo`, which is `make run`: Spark queries and a stock consumer share one group, through a join and a kill.

At the end every order is accounted for, every rebalance has its reason, and a picture shows who had what.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from equipoise.broker import Broker
from equipoise.client import Admin
from equipoise.console import words
from equipoise.console.demo_accounts import Account, account, read_output
from equipoise.console.demo_members import GROUP, PlainConsumer, Query
from equipoise.console.demo_orders import PARTITIONS, RATE, TOPIC, Orders
from equipoise.console.demo_plot import draw
from equipoise.console.demo_watch import Watch
from equipoise.wire.errors import EquipoiseError, UsageError

PLAIN = "plain consumer"
QUERIES = "query-1", "query-2", "query-3"
KILLED = QUERIES[0]
_FLOW_S = 8.0  # of quiet between two events
_PATIENCE_S = 300.0
_LOOK_S = 0.25
_NEEDED = {"confluent_kafka": "demo", "matplotlib": "plots", "pyspark": "spark", "pyarrow": "spark"}
_COLOURS = dict(zip((PLAIN, *QUERIES), ("bright_blue", "cyan", "green", "yellow"), strict=True))


def run_demo(picture: Path) -> bool:
    """Whether the accounts are right."""
    _check_needs()
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="equipoise-demo-") as directory, ExitStack() as stack:
        demo = _Demo(console, Path(directory), stack)
        found = demo.run()
        demo.tell_rebalances()
        demo.draw(picture)
        for line in found.lines():
            demo.say(f"[bold]{line}[/bold]" if found.is_right else f"[bold red]{line}[/bold red]")
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
    def __init__(self, console: Console, directory: Path, stack: ExitStack) -> None:
        self.console = console
        self.directory = directory
        self.broker = stack.enter_context(Broker({"group.initial.rebalance.delay.ms": 0}))
        with Admin(self.broker.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, PARTITIONS)
        self.stack = stack
        self.watch = Watch(self.broker)
        self.members: dict[str, Query | PlainConsumer] = {}
        self.orders = Orders(self.broker.bootstrap_servers)
        self.killed_at = 0.0

    def say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)

    # -- the play

    def run(self) -> Account:
        begun = time.monotonic()
        self.say(f"Broker on {self.broker.bootstrap_servers}; {RATE:,} orders a second into {PARTITIONS} partitions.")
        with self.watch.watching(), self.shown(), self.orders:
            self.members[PLAIN] = self.plain = PlainConsumer(PLAIN, self.broker.bootstrap_servers)
            self.stack.callback(self.plain.leave)
            self.begin_query(QUERIES[0])
            self.begin_query(QUERIES[1])
            self.until_shared("two Spark queries start, and share the group with a plain consumer", 3, "three share")
            self.flow("all three read")
            self.begin_query(QUERIES[2])
            self.until_shared("a third query starts and joins", 4, f"{QUERIES[2]} joined")
            self.flow("all four read")
            self.kill()
            self.until_shared(
                f"{KILLED} was killed; the others get its partitions when its session ends", 3, "taken over"
            )
            self.flow("the three that are left read on")
            self.orders.end()
            self.wait("the last orders are read", lambda: self.watch.last.lag == 0)
            self.leave()
        self.say(f"All have left the group, {time.monotonic() - begun:.0f} s after the begin.")
        return self.accounts()

    def begin_query(self, name: str) -> None:
        query = Query(name, self.directory, self.broker.bootstrap_servers)
        self.stack.callback(query.kill)
        self.members[name] = query

    def kill(self) -> None:
        query = self.members.pop(KILLED)
        assert isinstance(query, Query)
        self.killed_at = self.watch.now()
        self.watch.note(f"{KILLED} killed")
        query.kill()

    def leave(self) -> None:
        with self.doing("the members leave"):
            self.watch.note("all leave")
            for member in self.members.values():
                member.leave()

    # -- waiting

    def until_shared(self, what: str, count: int, event: str) -> None:
        """Until each of so many members has its part."""

        def is_shared() -> bool:
            owners = self.watch.last.owners
            shares = {name: list(owners.values()).count(name) for name in self.members}
            return len(owners) == PARTITIONS and len(shares) == count and min(shares.values()) == PARTITIONS // count

        self.wait(what, is_shared)
        self.watch.note(event)

    def flow(self, what: str) -> None:
        end = time.monotonic() + _FLOW_S
        self.wait(what, lambda: time.monotonic() >= end)

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        with self.doing(what):
            deadline = time.monotonic() + _PATIENCE_S
            while not condition():
                for member in self.members.values():
                    member.check()
                if time.monotonic() > deadline:
                    raise EquipoiseError(f"{what}: this has not come about within {_PATIENCE_S:.0f} s")
                time.sleep(_LOOK_S)

    # -- what is shown

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """A spinner with what is going on; afterwards a line that says when it was done."""
        self.spinner.update(text=Text(f"{what} ..."))
        if not self.console.is_terminal:
            self.say(f"{what} ...")
        yield
        if self.console.is_terminal:
            self.say(f"[dim]{self.watch.now():5.0f} s[/dim]  {what}")

    @contextmanager
    def shown(self) -> Iterator[None]:
        self.spinner = Spinner("dots", Text("starting ..."))
        with Live(console=self.console, get_renderable=self.picture, transient=True, refresh_per_second=5):
            yield

    def picture(self) -> Group:
        look = self.watch.last
        table = Table.grid(padding=(0, 1))
        for name in (PLAIN, *QUERIES):
            owned = [number for number, owner in look.owners.items() if owner == name]
            cells = [Text("■" if one in owned else "·", style=_COLOURS[name]) for one in range(PARTITIONS)]
            table.add_row(Text(name, style=_COLOURS[name]), *cells, Text(f"{len(owned):>3} partitions"))
        figures = f"{self.orders.acknowledged:,} orders written, {look.lag:,} not yet read and committed"
        return Group(table, Text(figures), self.spinner)

    # -- the end

    def accounts(self) -> Account:
        outputs = [read_output(name, self.directory / name / "member=0", was_killed=name == KILLED) for name in QUERIES]
        return account(self.orders.written, [*outputs, self.plain.output()])

    def tell_rebalances(self) -> None:
        self.say(f"Rebalances of {GROUP!r}:")
        for at, entry in self.watch.rebalances():
            took = words.duration((entry.ended or entry.started) - entry.started)
            moved = f"{len(entry.moved)} of {PARTITIONS} partitions moved" if entry.moved else "nothing moved"
            self.say(
                f"  {at:5.1f} s  generation {entry.generation:>2}: {escape(words.cause(entry.cause))}; {moved}, {took}"
            )

    def draw(self, picture: Path) -> None:
        draw(picture, self.watch.looks, (PLAIN, *QUERIES), PARTITIONS, self.watch.events, (KILLED, self.killed_at))
        self.say(f"Who had which partition when: {escape(str(picture.absolute()))}")
