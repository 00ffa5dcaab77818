"""`equipoise groups`: looks at groups, explains them, checks them, and changes their offsets, on any Kafka cluster."""

from __future__ import annotations

from equipoise.console.later import LaterGroup

groups = LaterGroup(
    "groups",
    "equipoise.console.commands.groups.every",
    help="Look at groups, explain and check them, change their offsets, on any Kafka cluster.",
)
