"""The stage of the demo: a broker, a flow of orders, and members of a group, shown on the terminal."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from equipoise.broker import Broker
from equipoise.console.commands.serving import CONSOLE_AT
from equipoise.console.demo.accounts import Account, has_open_transactions
from equipoise.console.demo.members import GROUP, DemoMember
from equipoise.console.demo.orders import PARTITIONS, RATE, SHIPPED, SHIPPED_PARTITIONS, TOPIC, Orders
from equipoise.console.demo.watch import Watch
from equipoise.wire.errors import EquipoiseError

_PATIENCE_S = 300.0
_LOOK_S = 0.25
_COLOURS = "bright_blue", "cyan", "green", "yellow"


class Stage:
    """`names` are all members of the play. `members` are those in the group, or about to join."""

    def __init__(self, names: Sequence[str], stack: ExitStack) -> None:
        self.console = Console(highlight=False)
        self.members: dict[str, DemoMember] = {}
        self._colours = dict(zip(names, _COLOURS, strict=False))
        self._stack = stack
        self.data = Path(tempfile.mkdtemp(prefix="equipoise-demo-"))
        self._is_told = False
        stack.callback(self._tidy_up)
        settings = {"group.initial.rebalance.delay.ms": 0}
        self.broker = stack.enter_context(
            Broker(settings, topics={TOPIC: PARTITIONS, SHIPPED: SHIPPED_PARTITIONS}, data=self.data)
        )
        self.watch = Watch(self.broker)
        self.orders = Orders(self.broker.bootstrap_servers)
        self._spinner = Spinner("dots", Text("starting ..."))

    def say(self, line: str) -> None:
        """Prints a line of the play as it is; the terminal breaks it."""
        self.console.print(line, soft_wrap=True)

    def enter(self, name: str, member: DemoMember, at_the_end: Callable[[], None]) -> None:
        """`at_the_end` also runs after an error."""
        self._stack.callback(at_the_end)
        self.members[name] = member

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Lets orders flow, and shows the group."""
        begun = time.monotonic()
        self.say(f"Broker on {self.broker.bootstrap_servers}; {RATE:,} orders a second into {PARTITIONS} partitions.")
        live = Live(console=self.console, get_renderable=self._picture, transient=True, refresh_per_second=5)
        with self.watch.watching(), live, self.orders:
            yield
        self.say(f"All have left the group, {time.monotonic() - begun:.0f} s after the begin.")

    def leave(self) -> None:
        """Ends the orders, waits until all are read, and lets the members leave."""
        self.orders.end()
        servers = self.broker.bootstrap_servers
        self.wait("the last orders are read", lambda: self.watch.last.lag == 0 and not has_open_transactions(servers))
        with self._doing("the members leave"):
            self.watch.note("all leave")
            for member in self.members.values():
                member.leave()

    def tell(self, found: Account) -> None:
        """Prints the account: red, if the promise was broken."""
        for line in found.lines():
            self.say(f"[bold]{line}[/bold]" if found.is_right else f"[bold red]{line}[/bold red]")

    def tell_console(self) -> None:
        """Prints how to look at the group in a browser: its history is in the data of the broker."""
        self._is_told = True
        self.say("In a browser: who had which partition when, and why it changed:")
        self.say(f"  [bold]equipoise serve --data {escape(str(self.data))} --console[/bold]")
        self.say(f"  [bold]http://{CONSOLE_AT}/groups/{GROUP}[/bold]")

    def _tidy_up(self) -> None:
        """The broker's data stays for the console. Of a play that was ended early nobody knows the directory."""
        if not self._is_told:
            shutil.rmtree(self.data, ignore_errors=True)

    # -- waiting

    def until_shared(self, what: str, count: int, event: str) -> None:
        """Waits until each of so many members has partitions."""

        def is_shared() -> bool:
            owners = self.watch.last.owners
            shares = {name: list(owners.values()).count(name) for name in self.members}
            return len(owners) == PARTITIONS and len(shares) == count and min(shares.values()) == PARTITIONS // count

        self.wait(what, is_shared)
        self.watch.note(event)

    def flow(self, what: str, seconds: float) -> None:
        """Lets time pass, so that orders flow."""
        end = time.monotonic() + seconds
        self.wait(what, lambda: time.monotonic() >= end)

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Waits for a condition. EquipoiseError: it takes too long, or a member has ended meanwhile."""
        with self._doing(what):
            deadline = time.monotonic() + _PATIENCE_S
            while not condition():
                for member in self.members.values():
                    member.check()
                if time.monotonic() > deadline:
                    raise EquipoiseError(f"{what}: this has not come about within {_PATIENCE_S:.0f} s")
                time.sleep(_LOOK_S)

    # -- the terminal

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        """Shows a spinner with the current step; afterwards a line with its time."""
        self._spinner.update(text=Text(f"{what} ..."))
        if not self.console.is_terminal:
            self.say(f"{what} ...")
        yield
        if self.console.is_terminal:
            self.say(f"[dim]{self.watch.now():5.0f} s[/dim]  {what}")

    def _picture(self) -> Group:
        look = self.watch.last
        table = Table.grid(padding=(0, 1))
        for name, colour in self._colours.items():
            owned = [number for number, owner in look.owners.items() if owner == name]
            cells = [Text("■" if one in owned else "·", style=colour) for one in range(PARTITIONS)]
            table.add_row(Text(name, style=colour), *cells, Text(f"{len(owned):>3} partitions"))
        figures = f"{self.orders.acknowledged:,} orders written, {look.lag:,} not yet read and committed"
        return Group(table, Text(figures), self._spinner)
