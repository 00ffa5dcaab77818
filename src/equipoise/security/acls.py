"""Access rules as Kafka's StandardAuthorizer has them: resources, patterns, ACLs, and what they allow.

An ACL allows or denies an operation on the resources of a pattern to a principal from a host. A matching DENY decides
before every ALLOW, and without any ALLOW the answer is no. The words and numbers are Kafka's (AclBinding).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple, Self

from equipoise.wire.errors import ErrorCode, KafkaError, UsageError

WILDCARD = "*"  # every name, every host
WILDCARD_PRINCIPAL = "User:*"
CLUSTER_NAME = "kafka-cluster"
MAX_RECORDS_PER_USER_OP = 10_000  # changes of one request (QuorumController)
MOST_DECIDED = 20_000_000  # letters of the decisions that are kept
_LETTERS_OF_DECISION = 200  # beside its names
ANY_NAME = "hardcode"  # stands for a name that no ACL names (Authorizer.authorizeByResourceType)


class _Code(IntEnum):
    """A number of the protocol; numbers that are not known are 0, UNKNOWN."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)


class ResourceType(_Code):
    """What an ACL is about, in the protocol's numbers. UNKNOWN and ANY occur in filters alone."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How the name of an ACL is compared, in the protocol's numbers. ANY and MATCH occur in filters alone."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Code):
    """What a principal does to a resource, in the protocol's numbers."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(_Code):
    """Whether an ACL allows or denies, in the protocol's numbers. A denial goes before."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


# What an ALLOW of these operations allows besides (StandardAuthorizerData.findResult). A DENY implies nothing.
_IMPLIED_BY = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS}),
}


class Resource(NamedTuple):
    """What an operation is done to."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


class ResourcePattern(NamedTuple):
    """The resources of an ACL: one by its name, those with a prefix, or with the literal name `*` all of the type."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL


class Acl(NamedTuple):
    """An access rule (AclBinding)."""

    pattern: ResourcePattern
    principal: str
    host: str
    operation: AclOperation
    permission_type: AclPermissionType

    def __str__(self) -> str:
        kind, name, pattern_type = self.pattern
        return (
            f"{self.permission_type.name} {self.operation.name} to {self.principal} from {self.host} "
            f"on {kind.name}:{pattern_type.name}:{name}"
        )

    @classmethod
    def read(cls, resource: Any, pattern_type: int, entry: Any) -> Acl:
        """From what messages and records have: a row that names the resource, and a row, perhaps the same, with the
        rest."""
        pattern = ResourcePattern(
            ResourceType(resource.resource_type), resource.resource_name, PatternType(pattern_type)
        )
        operation, permission_type = AclOperation(entry.operation), AclPermissionType(entry.permission_type)
        return cls(pattern, entry.principal, entry.host, operation, permission_type)

    def fields(self) -> dict[str, Any]:
        """Its fields by the names that messages and records have."""
        return {
            "resource_type": self.pattern.resource_type,
            "resource_name": self.pattern.name,
            "pattern_type": self.pattern.pattern_type,
            "principal": self.principal,
            "host": self.host,
            "operation": self.operation,
            "permission_type": self.permission_type,
        }

    def applies_to(self, principal: str, host: str) -> bool:
        """Whether it is about this principal on this host."""
        return self.principal in (principal, WILDCARD_PRINCIPAL) and _matches_host(self.host, host)

    def covers(self, operation: AclOperation) -> bool:
        """Whether it decides about the operation: only an ALLOW implies others (StandardAuthorizerData.findResult)."""
        if self.operation in (AclOperation.ALL, operation):
            return True
        return self.permission_type is AclPermissionType.ALLOW and self.operation in _IMPLIED_BY.get(operation, ())


class AclFilter(NamedTuple):
    """What DescribeAcls and DeleteAcls look for; None and ANY stand for everything (AclBindingFilter)."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether the ACL is looked for (AclBindingFilter.matches)."""
        return (
            self.resource_type in (ResourceType.ANY, acl.pattern.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (AclPermissionType.ANY, acl.permission_type)
            and self._matches_name(acl.pattern)
        )

    def _matches_name(self, pattern: ResourcePattern) -> bool:
        """MATCH finds the patterns that a name falls under; the others compare (ResourcePatternFilter.matches)."""
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        return matches_name(pattern, self.name)

    def check(self) -> None:
        """Raises INVALID_REQUEST for a filter of unknown numbers (AclControlManager.validateFilter)."""
        if 0 in (self.resource_type, self.pattern_type, self.operation, self.permission_type):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The filter has an unknown resource, pattern or operation.")


def matches_name(pattern: ResourcePattern, name: str) -> bool:
    """Whether a resource of this name falls under the pattern."""
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)


def check_new(acl: Acl) -> None:
    """Raises INVALID_REQUEST for what cannot be an ACL (AclApis.handleCreateAcls, AclControlManager.validateNewAcl)."""
    kind, name, pattern_type = acl.pattern
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        _refuse(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        _refuse("Invalid empty resource name")
    if kind in (ResourceType.UNKNOWN, ResourceType.ANY):
        _refuse(f"Invalid resourceType {kind.name}")
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        _refuse(f"Invalid patternType {pattern_type.name}")
    if acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        _refuse(f"Invalid operation {acl.operation.name}")
    if acl.permission_type not in (AclPermissionType.DENY, AclPermissionType.ALLOW):
        _refuse(f"Invalid permissionType {acl.permission_type.name}")
    _check_entry(acl)


def _check_entry(acl: Acl) -> None:
    if ":" not in acl.principal:
        _refuse(f"Could not parse principal from `{acl.principal}`: it has no colon behind its type, as in User:name")
    if not acl.host:
        _refuse("The host should not be empty")
    if "/" in acl.host and _network(acl.host) is None:
        _refuse(f"{acl.host} is no range of addresses; write it as 10.0.0.0/8")


def _refuse(message: str) -> None:
    raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def parse_super_users(text: str) -> frozenset[str]:
    """`super.users`: principals with semicolons between, for names may have commas (getConfiguredSuperUsers)."""
    users = [user.strip() for user in text.split(";")]
    for user in filter(None, users):
        if ":" not in user:
            raise UsageError(f"super.users: {user!r} has no type; write User:{user}, with semicolons between several")
    return frozenset(filter(None, users))


# -- hosts


@lru_cache(maxsize=1024)
def host_address(peer: str) -> str:
    """A peer's address as Java prints it, which is how ACLs name it: IPv6 without `::` (InetAddress.getHostAddress)."""
    if ":" not in peer:
        return peer
    address = ip_address(peer.partition("%")[0])
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


@lru_cache(maxsize=1024)
def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _matches_host(rule: str, host: str) -> bool:
    if rule in (WILDCARD, host):
        return True
    if "/" not in rule or not host:
        return False
    network = _network(rule)
    return network is not None and ip_address(host) in network


# -- decisions


class Decision(NamedTuple):
    """Whether an operation is allowed, and by which rule: an ACL, SuperUser, DefaultAllow or DefaultDeny."""

    is_allowed: bool
    rule: Acl | str


_SUPER_USER = Decision(True, "SuperUser")
_DEFAULT_ALLOW = Decision(True, "DefaultAllow")
_DEFAULT_DENY = Decision(False, "DefaultDeny")


class StandardAuthorizer:
    """All ACLs, found by resource, and the decisions that were made by them (StandardAuthorizerData)."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_everyone_if_no_acl_found: bool = False) -> None:
        self._super_users: frozenset[str] = frozenset()
        self._without_acl = _DEFAULT_DENY
        self._acls: dict[Acl, None] = {}
        self._by_pattern: dict[ResourcePattern, dict[Acl, None]] = {}
        # How many PREFIXED patterns have each length: a name falls under few of them.
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {kind: Counter() for kind in ResourceType}
        self._decisions: dict[tuple[str, str, AclOperation, ResourceType, str], Decision] = {}
        self._decided = 0  # letters
        self.epoch = 0  # counts the changes
        self.configure(super_users, allow_everyone_if_no_acl_found=allow_everyone_if_no_acl_found)

    def configure(self, super_users: Iterable[str], *, allow_everyone_if_no_acl_found: bool) -> None:
        """`super.users` may do everything; the other setting decides where no ACL names a resource."""
        self._super_users = frozenset(super_users)
        self._without_acl = _DEFAULT_ALLOW if allow_everyone_if_no_acl_found else _DEFAULT_DENY
        self._changed()

    # -- the ACLs

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def __len__(self) -> int:
        return len(self._acls)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._acls

    def add(self, acl: Acl) -> None:
        """Every later decision heeds it."""
        self._acls[acl] = None
        if acl.pattern not in self._by_pattern:
            self._by_pattern[acl.pattern] = {}
            self._count_prefix(acl.pattern, 1)
        self._by_pattern[acl.pattern][acl] = None
        self._changed()

    def remove(self, acl: Acl) -> None:
        """No later decision heeds it; nothing happens if it is not there."""
        if acl not in self._acls:
            return
        del self._acls[acl], self._by_pattern[acl.pattern][acl]
        if not self._by_pattern[acl.pattern]:
            del self._by_pattern[acl.pattern]
            self._count_prefix(acl.pattern, -1)
        self._changed()

    def _count_prefix(self, pattern: ResourcePattern, change: int) -> None:
        if pattern.pattern_type is PatternType.PREFIXED:
            lengths = self._prefix_lengths[pattern.resource_type]
            lengths[len(pattern.name)] += change
            if not lengths[len(pattern.name)]:
                del lengths[len(pattern.name)]

    def _changed(self) -> None:
        self._forget_decisions()
        self.epoch += 1

    def _forget_decisions(self) -> None:
        self._decisions.clear()
        self._decided = 0

    def matching(self, wanted: AclFilter) -> list[Acl]:
        """The ACLs that the filter looks for, in the order of their resources."""
        return sorted(acl for acl in self.candidates(wanted) if wanted.matches(acl))

    def patterns(self, wanted: AclFilter) -> list[ResourcePattern]:
        """The patterns whose ACLs may match a filter, in order."""
        named = _named_pattern(wanted)
        if named is None:
            return sorted(self._by_pattern)
        return [named] if named in self._by_pattern else []

    def of_pattern(self, pattern: ResourcePattern, wanted: AclFilter) -> list[Acl]:
        """The ACLs of one pattern that the filter looks for."""
        return sorted(acl for acl in self._by_pattern.get(pattern, ()) if wanted.matches(acl))

    def candidates(self, wanted: AclFilter) -> Collection[Acl]:
        """The ACLs to compare with a filter: those of one pattern if it names one, else all."""
        named = _named_pattern(wanted)
        return self._acls if named is None else self._by_pattern.get(named, {})

    # -- decisions

    def authorize(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Decides about one resource. Decisions are kept until an ACL changes: a client asks the same again."""
        key = principal, host, operation, resource_type, name
        decision = self._decisions.get(key)
        if decision is None:
            if self._decided > MOST_DECIDED:  # a client may ask for any number of names, of any length
                self._forget_decisions()
            self._decided += _LETTERS_OF_DECISION + len(name) + len(principal)
            decision = self._decisions[key] = self._decide(*key)
        return decision

    def _decide(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> Decision:
        """DENY first, then ALLOW; `allow.everyone...` only where no ACL names the resource at all (findAclRule)."""
        if principal in self._super_users:
            return _SUPER_USER
        allowing, default = None, self._without_acl
        for acl in self._of_resource(resource_type, name):
            default = _DEFAULT_DENY
            if acl.covers(operation) and acl.applies_to(principal, host):
                if acl.permission_type is AclPermissionType.DENY:
                    return Decision(False, acl)
                allowing = acl
        return default if allowing is None else Decision(True, allowing)

    def _of_resource(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """The ACLs whose pattern the name falls under."""
        for literal in dict.fromkeys((name, WILDCARD)):
            yield from self._by_pattern.get(ResourcePattern(resource_type, literal), ())
        for length in self._prefix_lengths[resource_type]:
            if length <= len(name):
                yield from self._by_pattern.get(ResourcePattern(resource_type, name[:length], PatternType.PREFIXED), ())

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether some resource of the type is allowed, whatever its name (Authorizer.authorizeByResourceType).

        Implied operations do not count here.
        """
        if self.authorize(principal, host, operation, resource_type, ANY_NAME).is_allowed:
            return True
        allowed: set[ResourcePattern] = set()
        denied: set[ResourcePattern] = set()
        for acl in self._acls:
            is_about = acl.pattern.resource_type is resource_type and acl.operation in (AclOperation.ALL, operation)
            if is_about and acl.applies_to(principal, host):
                (denied if acl.permission_type is AclPermissionType.DENY else allowed).add(acl.pattern)
        everything = ResourcePattern(resource_type, WILDCARD)
        if everything in denied:
            return False
        return everything in allowed or any(not _is_dominated(pattern, denied) for pattern in allowed)


def _is_dominated(allowed: ResourcePattern, denied: set[ResourcePattern]) -> bool:
    """Whether a denied pattern holds all names of an allowed one. An equal literal does, and a prefix."""
    if allowed.pattern_type is PatternType.LITERAL and allowed in denied:
        return True
    prefixes = (allowed.name[:length] for length in range(1, len(allowed.name) + 1))
    return any(ResourcePattern(allowed.resource_type, prefix, PatternType.PREFIXED) in denied for prefix in prefixes)


def _named_pattern(wanted: AclFilter) -> ResourcePattern | None:
    """The pattern that a filter names, if it names one."""
    kind, name, pattern_type = wanted.resource_type, wanted.name, wanted.pattern_type
    if kind is ResourceType.ANY or name is None or pattern_type in (PatternType.ANY, PatternType.MATCH):
        return None
    return ResourcePattern(kind, name, pattern_type)
