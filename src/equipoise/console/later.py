"""Commands that are imported when they are called: a broker does not carry what only a watcher needs."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
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
        """A command, also by the word of another tool."""
        found = self.commands.get(cmd_name)
        if found is None:
            aliases: dict[str, click.Command] = getattr(import_module(self._module), "ALIASES", {})
            found = aliases.get(cmd_name)
        return found


class LaterApp(click.Group):
    """The whole command. Some of its commands stand in modules, as `COMMAND`, that are imported at their call; some
    names are the words of other tools."""

    def __init__(self, name: str | None = None, **more: Any) -> None:
        self._eager: dict[str, click.Command] = {}
        self._modules: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        super().__init__(name, **more)

    def add_later(self, modules: Mapping[str, str], aliases: Mapping[str, str]) -> None:
        """Commands by name and module; other names of commands."""
        self._modules |= modules
        self._aliases |= aliases

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """All commands: who asks for all has them all imported."""
        later = {name: import_module(module).COMMAND for name, module in self._modules.items()}
        return dict(sorted((self._eager | later).items()))

    @commands.setter
    def commands(self, _given: MutableMapping[str, click.Command]) -> None:
        """click begins with none."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """A command that is imported already."""
        self._eager[name or cmd.name or ""] = cmd

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all, without importing any."""
        return sorted((*self._eager, *self._modules))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, also by the word of another tool."""
        name = self._aliases.get(cmd_name, cmd_name)
        if name in self._modules:
            command: click.Command = import_module(self._modules[name]).COMMAND
            return command
        return self._eager.get(name)
