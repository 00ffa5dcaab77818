"""Every command of `equipoise groups`."""

from __future__ import annotations

from equipoise.console.commands.groups.changes import delete, delete_offsets, remove_member
from equipoise.console.commands.groups.checks import check
from equipoise.console.commands.groups.past import explain, history
from equipoise.console.commands.groups.present import describe, lag, list_groups, members, offsets
from equipoise.console.commands.groups.reset import reset
from equipoise.console.commands.groups.watch import watch

COMMANDS = (
    list_groups,
    describe,
    members,
    lag,
    offsets,
    history,
    explain,
    watch,
    check,
    reset,
    delete,
    delete_offsets,
    remove_member,
)
ALIASES = {"seek": reset}
