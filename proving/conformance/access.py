"""ACLs beside Kafka's: a restricted principal puts the same requests, API by API, to both brokers under the same rules.

Kafka runs with a SASL_PLAINTEXT listener, PLAIN users and StandardAuthorizer. A `Situation` is a set of ACLs of alice;
in each the brokers answer every request of `access_requests`. What is left out of the comparison is what a request is
told beside its permission: ids, addresses, configs by name, the words of messages.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from equipoise.security.acls import Acl, AclOperation, AclPermissionType, PatternType, ResourcePattern, ResourceType
from equipoise.wire.apis.k03_metadata import MetadataRequest
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k10_find_coordinator import FindCoordinatorRequest
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeRequest
from equipoise.wire.apis.k19_create_topics import CreatableTopic, CreateTopicsRequest
from equipoise.wire.apis.k29_describe_acls import DescribeAclsRequest
from equipoise.wire.apis.k30_create_acls import AclCreation, CreateAclsRequest
from equipoise.wire.apis.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateRequest
from equipoise.wire.errors import EquipoiseError, ErrorCode
from equipoise.wire.schema import ZERO_UUID, Message, Struct
from proving.brokers import EquipoiseBroker, KafkaBroker
from proving.conformance.line import Closed, Line
from proving.conformance.listed import CLOSED

ADMIN, ALICE = "admin", "alice"
THERE, OTHER, ABSENT, GROUP = "there", "other", "absent", "g"
DOOMED = ("doomed-by-name", "doomed-by-id")
PRINCIPAL = f"User:{ALICE}"
_LISTENER = "SASL_PLAINTEXT"
_USERS = " ".join(f'user_{name}="{name}"' for name in (ADMIN, ALICE))
_JAAS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{ADMIN}" password="{ADMIN}" {_USERS};'
)
SETTINGS: dict[str, object] = {
    "sasl.enabled.mechanisms": "PLAIN",
    f"listener.name.{_LISTENER.lower()}.plain.sasl.jaas.config": _JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN};User:ANONYMOUS",  # the controller's listener of Kafka has no users
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 5,
}
_ANY = 1
_PATIENCE_S = 60.0
_LOOK_AGAIN_S = 0.02
_LOADING = "COORDINATOR_LOAD_IN_PROGRESS"
# What an answer tells beside the permission: it differs, and is compared elsewhere.
_NOT_COMPARED = frozenset(
    {
        *("throttle_time_ms", "error_message", "brokers", "controller_id", "cluster_id", "results_metadata"),
        *("producer_id", "log_append_time_ms", "session_id", "records", "node_endpoints", "current_leader"),
        *("host", "port", "documentation", "config_type", "total_bytes", "usable_bytes", "log_dir", "is_cordoned"),
    }
)
_ONLY_WHETHER = frozenset({"configs", "config_resources"})  # whether there are any


class Login(Line):
    """A connection of a user."""

    def __init__(self, port: int, user: str) -> None:
        super().__init__(port, user)
        self.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        answer: Any = self.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}".encode()), 2)
        if answer.error_code:
            raise EquipoiseError(f"{user} was not let in: {answer.error_message}")


class GuardedKafka(KafkaBroker):
    """Apache Kafka with users and StandardAuthorizer."""

    name = "kafka with ACLs"

    def is_ready(self) -> bool:
        return _is_open(self.port)

    def _all_settings(self) -> dict[str, object]:
        listeners = {_LISTENER: self.port, "CONTROLLER": self._controller_port}
        return {
            **super()._all_settings(),
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "advertised.listeners": f"{_LISTENER}://127.0.0.1:{self.port}",
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{_LISTENER}:{_LISTENER}",
            "inter.broker.listener.name": _LISTENER,
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            **SETTINGS,
        }


class GuardedEquipoise(EquipoiseBroker):
    """Ours with the same users and rules."""

    name = "equipoise with ACLs"

    def is_ready(self) -> bool:
        return _is_open(self.port)

    def command(self) -> Sequence[str]:
        settings = {"listeners": f"{_LISTENER}://127.0.0.1:{self.port}", **SETTINGS}
        options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        return [sys.executable, "-m", "equipoise", "serve", *self._storage(), *options]


def _is_open(port: int) -> bool:
    try:
        with Login(port, ADMIN) as line:
            return bool(_tell(line, DescribeAclsRequest, 3, **_every_acl()).error_code == ErrorCode.NONE)
    except (OSError, EquipoiseError):
        return False


def _tell(line: Line, request: type[Message], version: int, **fields: Any) -> Any:
    return line.call(request(**fields), version)


def _every_acl() -> dict[str, Any]:
    return {
        "resource_type_filter": _ANY,
        "resource_name_filter": None,
        "pattern_type_filter": _ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": _ANY,
        "permission_type": _ANY,
    }


# -- rules


class Situation(NamedTuple):
    """The ACLs of alice."""

    name: str
    acls: list[Acl]


def rule(
    kind: str, name: str, *operations: str, deny: bool = False, prefixed: bool = False, host: str = "*"
) -> list[Acl]:
    """An ACL of alice for each operation."""
    pattern = ResourcePattern(ResourceType[kind], name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return [Acl(pattern, PRINCIPAL, host, AclOperation[operation], permission) for operation in operations]


CLUSTER = "kafka-cluster"
SITUATIONS = [
    Situation("nothing", []),
    Situation("describe", rule("TOPIC", "there", "DESCRIBE") + rule("GROUP", "g", "DESCRIBE")),
    Situation("read by prefix", rule("TOPIC", "th", "READ", prefixed=True) + rule("GROUP", "g", "READ")),
    Situation("write", rule("TOPIC", "there", "WRITE") + rule("TOPIC", "absent", "WRITE")),
    Situation("all topics", rule("TOPIC", "*", "ALL")),
    Situation("all groups", rule("GROUP", "*", "ALL")),
    Situation("all but one", rule("TOPIC", "*", "ALL") + rule("TOPIC", "there", "ALL", deny=True)),
    Situation("read, describe denied", rule("TOPIC", "*", "READ") + rule("TOPIC", "*", "DESCRIBE", deny=True)),
    Situation("cluster creates and deletes", rule("CLUSTER", CLUSTER, "CREATE", "DELETE")),
    Situation("cluster describes", rule("CLUSTER", CLUSTER, "DESCRIBE")),
    Situation("cluster alters", rule("CLUSTER", CLUSTER, "ALTER", "ALTER_CONFIGS")),
    Situation("cluster action", rule("CLUSTER", CLUSTER, "CLUSTER_ACTION", "IDEMPOTENT_WRITE")),
    Situation("topics are made", rule("TOPIC", "*", "CREATE", "DELETE")),
    Situation("configs", rule("TOPIC", "*", "ALTER_CONFIGS") + rule("GROUP", "*", "DESCRIBE_CONFIGS")),
    Situation("another host", rule("TOPIC", "*", "ALL", host="10.1.1.1") + rule("GROUP", "*", "ALL", host="10.1.1.1")),
    Situation("all", rule("TOPIC", "*", "ALL") + rule("GROUP", "*", "ALL") + rule("CLUSTER", CLUSTER, "ALL")),
]


# -- one broker's side


class AccessSide:
    """One broker, the admin's connection, and what is known of its topics."""

    def __init__(self, name: str, port: int, login: Callable[[int, str], Line] = Login) -> None:
        self.name = name
        self.port = port
        self._login = login
        self._admin = login(port, ADMIN)
        self.topic_ids: dict[str, bytes] = {}

    def prepare(self) -> None:
        """Topics, and a group with an offset."""
        self._create(THERE, OTHER)
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = OffsetCommitRequestTopic(name=THERE, partitions=[row])

        def commit() -> bool:
            answer = _tell(self._admin, OffsetCommitRequest, 8, group_id=GROUP, topics=[topic])
            if not answer.topics[0].partitions[0].error_code:
                return True
            _tell(self._admin, FindCoordinatorRequest, 3, key=GROUP)  # the first one makes the coordinator
            return False

        self._wait("an offset is committed", commit)

    def _create(self, *names: str) -> None:
        """Topics of two partitions, unless they are there; returns when they are told of."""
        topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
        answer = _tell(self._admin, CreateTopicsRequest, 7, topics=topics, timeout_ms=30_000)
        for row in answer.topics:
            if row.error_code == ErrorCode.NONE:
                self.topic_ids[row.name] = row.topic_id
        wanted = {self.topic_ids[name] for name in names}
        self._wait(f"{names} are there", lambda: wanted <= {row.topic_id for row in self._topics()})

    def _topics(self) -> list[Any]:
        found: list[Any] = _tell(self._admin, MetadataRequest, 12, topics=None).topics
        return [row for row in found if not row.error_code and all(one.leader_id >= 0 for one in row.partitions)]

    def enter(self, situation: Situation) -> None:
        """Only these ACLs are there when it returns, and the broker heeds them."""
        _tell(self._admin, DeleteAclsRequest, 3, filters=[DeleteAclsFilter(**_every_acl())])
        if situation.acls:
            answer = _tell(self._admin, CreateAclsRequest, 3, creations=[_creation(acl) for acl in situation.acls])
            assert not any(row.error_code for row in answer.results)
        self._wait(f"the ACLs are those of {situation.name!r}", lambda: self._count() == len(situation.acls))
        self._create(*DOOMED)

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise EquipoiseError(f"{self.name}: not so within {_PATIENCE_S:.0f} s: {what}")
            time.sleep(_LOOK_AGAIN_S)

    def _count(self) -> int:
        answer = _tell(self._admin, DescribeAclsRequest, 3, **_every_acl())
        return sum(len(row.acls) for row in answer.resources)

    def ask(self, request: Message, version: int) -> Any:
        """Alice's answer as plain data, when coordinators are loaded. A broker may end the connection instead."""
        with self._login(self.port, ALICE) as line:
            try:
                while (answer := self._plain(line.call(request, version), version)).get("error_code") == _LOADING:
                    time.sleep(_LOOK_AGAIN_S)
            except Closed:
                return CLOSED
            except TimeoutError:
                raise EquipoiseError(f"{self.name} has not answered {type(request).__name__} v{version}") from None
        return answer

    def close(self) -> None:
        self._admin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _plain(self, struct: Struct, version: int) -> dict[str, Any]:
        rows = {}
        for name, row in struct.fields.items():
            if version in row.versions and name not in _NOT_COMPARED:
                rows[name] = self._value(name, getattr(struct, name), version)
        return rows

    def _value(self, name: str, value: Any, version: int) -> Any:
        if name in _ONLY_WHETHER:
            return bool(value)
        if isinstance(value, list):
            return sorted((self._value("", one, version) for one in value), key=repr)
        if isinstance(value, Struct):
            return self._plain(value, version)
        if name == "topic_id":
            return self._topic(value)
        return _code(value) if name.endswith("error_code") else value

    def _topic(self, topic_id: bytes) -> str:
        if topic_id == ZERO_UUID:
            return "none"
        return next((name for name, known in self.topic_ids.items() if known == topic_id), "an id")


def _creation(acl: Acl) -> AclCreation:
    return AclCreation(
        resource_type=acl.pattern.resource_type,
        resource_name=acl.pattern.name,
        resource_pattern_type=acl.pattern.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )


def _code(value: int) -> str:
    try:
        return ErrorCode(value).name
    except ValueError:
        return f"error {value}"


# -- the comparison


class AccessRequest(NamedTuple):
    """A request by its name; `build` makes it for a side, for ids are of the side."""

    name: str
    version: int
    build: Callable[[AccessSide], Message]


class Compared(NamedTuple):
    situation: str
    request: str
    kafka: Any
    ours: Any

    @property
    def is_equal(self) -> bool:
        """Whether both brokers have answered alike."""
        return bool(self.kafka == self.ours)

    def __str__(self) -> str:
        return f"{self.situation} / {self.request}:\n  kafka {self.kafka}\n  ours  {self.ours}"


def compare(
    kafka: AccessSide, ours: AccessSide, requests: Sequence[AccessRequest], situations: Iterable[Situation] = SITUATIONS
) -> Iterator[Compared]:
    """Every request in every situation."""
    for situation in situations:
        for side in (kafka, ours):
            side.enter(situation)
        for asked in requests:
            answers = [side.ask(asked.build(side), asked.version) for side in (kafka, ours)]
            yield Compared(situation.name, f"{asked.name} v{asked.version}", *answers)


# What Kafka answers otherwise, by request and by both answers; the rest has to be equal.
def listed(found: Compared) -> str | None:
    """Why a difference is meant; None: it is not."""
    if found.request.startswith("CreateAcls") and _codes(found.kafka) == {"UNKNOWN_SERVER_ERROR"}:
        return "an ACL with ANY in it is INVALID_REQUEST here; Kafka fails inside"
    if found.request.startswith("Fetch of a follower of there") and "NOT_LEADER_OR_FOLLOWER" in repr(found.kafka):
        return "there are no followers here: a replica id that is allowed reads like a consumer"
    return None


def _codes(answer: Any) -> set[str]:
    rows = [row for value in answer.values() if isinstance(value, list) for row in value]
    return {row["error_code"] for row in rows}
