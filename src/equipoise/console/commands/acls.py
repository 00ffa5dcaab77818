"""`equipoise acls`: ACLs in the words of kafka-acls, on any Kafka cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from equipoise.console.options import ClusterOptions, Decorated, json_option, timed_cluster_options
from equipoise.console.tables import print_table
from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    from equipoise.security.acls import Acl, AclFilter, AclOperation, ResourceType

_PATTERNS = click.Choice(("literal", "prefixed", "any", "match"), case_sensitive=False)


class Resources(NamedTuple):
    """The resources that a command names."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    on_cluster: bool

    def named(self) -> list[tuple[ResourceType, str]]:
        """Each as type and name."""
        from equipoise.security.acls import CLUSTER_NAME, ResourceType

        return [
            *((ResourceType.TOPIC, name) for name in self.topics),
            *((ResourceType.GROUP, name) for name in self.groups),
            *((ResourceType.TRANSACTIONAL_ID, name) for name in self.transactional_ids),
            *([(ResourceType.CLUSTER, CLUSTER_NAME)] if self.on_cluster else []),
        ]


class Entries(NamedTuple):
    """The principals, hosts and operations that a command names."""

    allowed: tuple[str, ...]
    denied: tuple[str, ...]
    allowed_hosts: tuple[str, ...]
    denied_hosts: tuple[str, ...]
    operations: tuple[str, ...]

    def pairs(self) -> list[tuple[str, str, bool]]:
        """Principal, host, and whether it is allowed."""
        _check_hosts("allow", self.allowed, self.allowed_hosts)
        _check_hosts("deny", self.denied, self.denied_hosts)
        return [
            *((user, host, True) for user in self.allowed for host in self.allowed_hosts or ("*",)),
            *((user, host, False) for user in self.denied for host in self.denied_hosts or ("*",)),
        ]


def _check_hosts(kind: str, principals: Sequence[str], hosts: Sequence[str]) -> None:
    if hosts and not principals:
        raise UsageError(f"--{kind}-host needs a --{kind}-principal, for instance User:*")


def _options(*rows: tuple[str, str, str, str]) -> Callable[[Decorated], Decorated]:
    """Options that may be given more than once: the name, the parameter, what stands for a value, and the help."""

    def decorate(function: Decorated) -> Decorated:
        for name, parameter, metavar, doc in reversed(rows):
            function = click.option(name, parameter, metavar=metavar, multiple=True, help=doc)(function)
        return function

    return decorate


_names = _options(
    ("--topic", "topics", "TOPIC", "A topic; * is all. Repeatable."),
    ("--group", "groups", "GROUP", "A group; * is all. Repeatable."),
    ("--transactional-id", "transactional_ids", "ID", "A transactional id."),
)
_entry_options = _options(
    ("--allow-principal", "allowed", "USER", "For instance User:alice."),
    ("--deny-principal", "denied", "USER", "For instance User:bob."),
    ("--allow-host", "allowed_hosts", "HOST", "Address or range; * if none."),
    ("--deny-host", "denied_hosts", "HOST", "Address or range; * if none."),
    ("--operation", "operations", "NAME", "READ, WRITE ...; all if none."),
)


def _resource_options(function: Decorated) -> Decorated:
    on_cluster = click.option("--cluster", "on_cluster", is_flag=True, help="The cluster.")
    pattern = click.option(
        "--resource-pattern-type", "pattern", type=_PATTERNS, default=None, help="How names are meant."
    )
    return _names(on_cluster(pattern(function)))


def _change_options(function: Decorated) -> Decorated:
    return _resource_options(_entry_options(json_option("a table")(function)))


@click.group()
def acls() -> None:
    """List, add and remove access rules, on any Kafka cluster."""


@acls.command("list")
@_resource_options
@click.option("--principal", metavar="USER", help="Only those of this principal.")
@json_option("a table")
@timed_cluster_options
def acls_list(cluster: ClusterOptions, pattern: str | None, principal: str | None, as_json: bool, **given: Any) -> None:
    """All access rules, or those of some resources."""
    filters = _filters(Resources(**given), pattern or "any", principal)
    with cluster.admin() as admin:
        found = sorted({acl for wanted in filters for acl in admin.describe_acls(wanted)})
    _print(found, as_json, "no access rules match")


@acls.command("add")
@_change_options
@timed_cluster_options
def acls_add(cluster: ClusterOptions, **given: Any) -> None:
    """Access rules: who may, or may not, do what to which resources."""
    wanted = _acls(*_named(given))
    with cluster.admin() as admin:
        admin.create_acls(wanted)
    _print(wanted, given["as_json"], "")


@acls.command("remove")
@_change_options
@timed_cluster_options
def acls_remove(cluster: ClusterOptions, **given: Any) -> None:
    """The access rules of some resources, all or those of some principals."""
    with cluster.admin() as admin:
        removed = admin.delete_acls(_removals(*_named(given)))
    _print(removed, given["as_json"], "no access rules match: none was removed")


def _named(given: dict[str, Any]) -> tuple[Resources, Entries, str]:
    resources = Resources(*(given[name] for name in Resources._fields))
    return resources, Entries(*(given[name] for name in Entries._fields)), given["pattern"] or "literal"


def _filters(resources: Resources, pattern: str, principal: str | None) -> list[AclFilter]:
    from equipoise.security.acls import AclFilter, PatternType

    kind = PatternType[pattern.upper()]
    named = [AclFilter(resource, name, kind, principal) for resource, name in resources.named()]
    return named or [AclFilter(pattern_type=kind, principal=principal)]


def _acls(resources: Resources, entries: Entries, pattern: str) -> list[Acl]:
    from equipoise.security.acls import Acl, AclPermissionType, PatternType, ResourcePattern

    if not resources.named() or not entries.pairs():
        raise UsageError("say for what and for whom, for instance --topic orders --allow-principal User:alice")
    if pattern not in ("literal", "prefixed"):
        raise UsageError("a rule that is added has --resource-pattern-type literal or prefixed")
    return [
        Acl(
            ResourcePattern(kind, name, PatternType[pattern.upper()]),
            principal,
            host,
            operation,
            AclPermissionType.ALLOW if is_allowed else AclPermissionType.DENY,
        )
        for kind, name in resources.named()
        for principal, host, is_allowed in entries.pairs()
        for operation in _operations(entries.operations or ("ALL",))
    ]


def _removals(resources: Resources, entries: Entries, pattern: str) -> list[AclFilter]:
    """Without a principal every rule of the resource goes, as with kafka-acls."""
    from equipoise.security.acls import AclFilter, AclOperation, AclPermissionType, PatternType

    if not resources.named():
        raise UsageError("say of what, for instance --topic orders")
    pairs: list[tuple[str | None, str | None, AclPermissionType]] = [
        (principal, host, AclPermissionType.ALLOW if is_allowed else AclPermissionType.DENY)
        for principal, host, is_allowed in entries.pairs()
    ]
    operations = _operations(entries.operations or (("ALL",) if pairs else ()))
    return [
        AclFilter(kind, name, PatternType[pattern.upper()], principal, host, operation, permission)
        for kind, name in resources.named()
        for principal, host, permission in pairs or [(None, None, AclPermissionType.ANY)]
        for operation in operations or [AclOperation.ANY]
    ]


def _operations(names: Sequence[str]) -> list[AclOperation]:
    """By Kafka's names in any spelling: AlterConfigs, ALTER_CONFIGS, alter-configs."""
    from equipoise.security.acls import AclOperation

    known = {one.name.replace("_", ""): one for one in AclOperation if one > AclOperation.ANY}
    found = []
    for name in names:
        operation = known.get(name.upper().replace("_", "").replace("-", ""))
        if operation is None:
            raise UsageError(f"--operation {name}: write one of {', '.join(one.name for one in known.values())}")
        found.append(operation)
    return found


def _print(found: Sequence[Acl], as_json: bool, nothing: str) -> None:
    rows = [
        {
            "resourceType": acl.pattern.resource_type.name,
            "name": acl.pattern.name,
            "patternType": acl.pattern.pattern_type.name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation.name,
            "permissionType": acl.permission_type.name,
        }
        for acl in found
    ]
    if as_json:
        from equipoise.console.output import print_json

        print_json("acls", acls=rows)
    elif not rows:
        print(nothing)
    else:
        columns = ("resource", "name", "pattern", "principal", "host", "operation", "permission")
        print_table(columns, [tuple(row.values()) for row in rows])


COMMAND = acls
