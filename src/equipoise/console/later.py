"""Commands that are imported when they are called: a broker does not carry what only a watcher needs."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from typing import Any

import click


class LaterGroup(click.Group):
    """A group whose commands are those of a module's `COMMANDS`. Its `ALIASES` are the words of other tools: they work,
    and no list shows them."""

    def __init__(self, name: str, module: str, **more: Any) -> None:
        self._module = module
        self._loaded: dict[str, click.Command] = {}
        super().__init__(name, **more)

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """The commands by name, imported at their first use."""
        if not self._loaded:
            found = import_module(self._module).COMMANDS
            self._loaded = {one.name: one for one in found}
        return self._loaded

    @commands.setter
    def commands(self, _given: MutableMapping[str, click.Command]) -> None:
        """click begins with none."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self.commands.get(cmd_name)
        if found is None:
            aliases: dict[str, click.Command] = getattr(import_module(self._module), "ALIASES", {})
            found = aliases.get(cmd_name)
        return found
