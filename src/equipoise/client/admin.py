"""Administration of any Kafka cluster: topics (list, create, grow, describe, delete), users of SCRAM, ACLs.

Every call fetches fresh metadata, and then asks the broker that is in charge. Nothing here is cached.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import NamedTuple, Self

from equipoise.client.admin_acls import create_request, delete_request, deleted, describe_request, described
from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.client.metadata.list_offsets import list_offsets_request, listed_offsets
from equipoise.client.metadata.metadata import Metadata, metadata_request, patience_rounds
from equipoise.client.net.addresses import Address, parse_bootstrap_servers
from equipoise.client.net.blocking import Connection
from equipoise.client.net.errors import KafkaConnectionError, error_from, is_final
from equipoise.client.security.config import SecurityConfig
from equipoise.client.security.parsing import security_from_keywords
from equipoise.member.partitions import TopicPartition, listed
from equipoise.security.acls import Acl, AclFilter, AclOperation
from equipoise.security.denials import RESOURCE_OF, Action, on_cluster, on_topic
from equipoise.security.sasl.scram import HASHES, MIN_ITERATIONS, salted_password
from equipoise.security.state import ScramMechanism
from equipoise.wire.apis.k02_list_offsets import ListOffsetsResponse
from equipoise.wire.apis.k03_metadata import MetadataResponse, MetadataResponseTopic
from equipoise.wire.apis.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from equipoise.wire.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from equipoise.wire.apis.k29_describe_acls import DescribeAclsResponse
from equipoise.wire.apis.k30_create_acls import CreateAclsResponse
from equipoise.wire.apis.k31_delete_acls import DeleteAclsResponse
from equipoise.wire.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from equipoise.wire.apis.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from equipoise.wire.apis.k50_describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from equipoise.wire.apis.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from equipoise.wire.errors import ErrorCode, UsageError

CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
DESCRIBE, DESCRIBE_CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
BROKER_DEFAULT = -1
_TOPIC_RESOURCE = 2
_SET_ON_TOPIC = 1
_FIRST_DELETE_WITH_IDS = 6
_LOOK_AGAIN_S = 0.02
_SALT_BYTES = 32


class BrokerDescription(NamedTuple):
    """A broker, and where clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class ClusterDescription(NamedTuple):
    """A cluster's brokers, and the one in charge of topics."""

    cluster_id: str | None
    controller_id: int
    brokers: list[BrokerDescription]


class PartitionDescription(NamedTuple):
    """A partition's leader and replicas."""

    partition: int
    leader_id: int  # -1: there is none at the moment
    replica_nodes: list[int]
    isr_nodes: list[int]


class TopicDescription(NamedTuple):
    """A topic and its partitions."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: list[PartitionDescription]


class PartitionOffsets(NamedTuple):
    """The records of a partition: from `earliest` on, below `latest`."""

    earliest: int
    latest: int


class UserDescription(NamedTuple):
    """A user, and the iterations of its credential by mechanism."""

    name: str
    iterations: dict[str, int]


class Admin:
    """Manages topics, users and ACLs. A refusal of the broker is a KafkaError, with the broker's own words if any.

    with Admin("127.0.0.1:9092") as admin:
        admin.create_topic("orders", partitions=6, configs={"retention.ms": "3600000"})
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "equipoise",
        timeout: float = 30.0,
        security: SecurityConfig | None = None,
        **settings: object,
    ) -> None:
        """`settings`: those of docs/security.md, with underscores for dots, unless `security` has them."""
        self._security = security or security_from_keywords(bootstrap_servers, **settings)
        self._client_id = client_id
        self._timeout = timeout
        self._open = ExitStack()
        self._by_address: dict[Address, Connection] = {}
        self._bootstrap = self._reach(parse_bootstrap_servers(bootstrap_servers))

    def close(self) -> None:
        """Closes all connections."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return _cluster(self._metadata([]))

    def topics(self) -> list[TopicDescription]:
        """All topics by name, internal topics too."""
        return sorted(_describe(topic) for topic in self._metadata(None).topics)

    def topic(self, name: str) -> TopicDescription:
        """The topic and its partitions. KafkaError: it does not exist."""
        return _describe(self._find(name)[1])

    def create_topic(
        self,
        name: str,
        partitions: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
        *,
        replication_factor: int = BROKER_DEFAULT,
    ) -> None:
        """Creates a topic and waits until it can be used: a cluster answers before all its brokers know the topic
        and its leaders."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=self._timeout_ms)
        (result,) = self._controller().send(request, CreateTopicsResponse).topics
        self._check(result.error_code, result.error_message, f"topic {name!r} was not created", on_topic(CREATE, name))
        self._wait_for_leaders(name, max(partitions, 1))

    def delete_topic(self, name: str) -> None:
        """Deletes the topic with all its records."""
        controller = self._controller()
        request = DeleteTopicsRequest(timeout_ms=self._timeout_ms)
        if controller.version(DeleteTopicsRequest) < _FIRST_DELETE_WITH_IDS:
            request.topic_names = [name]
        else:
            request.topics = [DeleteTopicState(name=name)]
        (result,) = controller.send(request, DeleteTopicsResponse).responses
        self._check(result.error_code, result.error_message, f"topic {name!r} was not deleted", on_topic(DELETE, name))

    def add_partitions(self, name: str, total: int) -> None:
        """Raises the number of partitions to `total`."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=total)], timeout_ms=self._timeout_ms
        )
        (result,) = self._controller().send(request, CreatePartitionsResponse).results
        what = f"topic {name!r} was not given {total} partitions"
        self._check(result.error_code, result.error_message, what, on_topic(ALTER, name))
        self._wait_for_leaders(name, total)

    def _wait_for_leaders(self, name: str, partitions: int) -> None:
        """Waits, for a limited time, until the broker of all other requests knows the leaders of so many partitions."""
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            (topic,) = self._metadata([name]).topics
            led = sum(one.leader_id >= 0 for one in topic.partitions)
            if topic.error_code in RESOURCE_OF:  # created, and not to be described
                return
            if not topic.error_code and led == len(topic.partitions) >= partitions:
                return
            time.sleep(_LOOK_AGAIN_S)

    def configs(self, name: str) -> dict[str, str]:
        """The configs set on this topic. All others have the broker's default."""
        resource = DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name)
        (result,) = self._bootstrap.send(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse).results
        what = f"the configs of topic {name!r} cannot be read"
        self._check(result.error_code, result.error_message, what, on_topic(DESCRIBE_CONFIGS, name))
        return {row.name: row.value or "" for row in result.configs if row.config_source == _SET_ON_TOPIC}

    def offsets(self, name: str) -> dict[int, PartitionOffsets]:
        """The earliest and latest offset of each partition, from the partition's leader."""
        response, topic = self._find(name)
        for one in topic.partitions:
            self._check(one.error_code, None, f"partition {one.partition_index} of {name!r} has no leader")
        metadata = _metadata_of(response)
        found: dict[int, PartitionOffsets] = {}
        partitions = [TopicPartition(name, one.partition_index) for one in topic.partitions]
        for node_id, mine in metadata.by_leader(partitions).items():
            if node_id is None:
                raise KafkaConnectionError(
                    f"{self._bootstrap.address} does not know the broker that leads {listed(mine)}; it may be down: "
                    "try again when it is back"
                )
            leader = self._connection(metadata.nodes[node_id].address)
            earliest, latest = (self._list_offsets(leader, mine, which) for which in (EARLIEST, LATEST))
            found |= {one.partition: PartitionOffsets(earliest[one], latest[one]) for one in mine}
        return dict(sorted(found.items()))

    # -- users

    def users(self) -> list[UserDescription]:
        """All users that have a SCRAM credential, by name."""
        request = DescribeUserScramCredentialsRequest(users=None)
        answer = self._bootstrap.send(request, DescribeUserScramCredentialsResponse)
        self._check(answer.error_code, answer.error_message, "the users cannot be read", on_cluster(DESCRIBE))
        described = []
        for one in answer.results:
            what = f"user {one.user!r} cannot be described"
            self._check(one.error_code, one.error_message, what, on_cluster(DESCRIBE))
            infos = sorted((ScramMechanism(info.mechanism), info.iterations) for info in one.credential_infos)
            described.append(UserDescription(one.user, {kind.mechanism_name: count for kind, count in infos}))
        return sorted(described)

    def set_password(
        self, user: str, password: str, *, mechanism: str = "SCRAM-SHA-256", iterations: int = MIN_ITERATIONS
    ) -> None:
        """Adds the user, or changes its password for this mechanism. The password itself is not sent."""
        number, salt = _mechanism(mechanism), secrets.token_bytes(_SALT_BYTES)
        upsertion = ScramCredentialUpsertion(
            name=user,
            mechanism=number,
            iterations=iterations,
            salt=salt,
            salted_password=salted_password(mechanism, password.encode(), salt, max(iterations, 1)),
        )
        self._alter_user(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))

    def remove_user(self, user: str, mechanism: str | None = None) -> None:
        """Removes the credential of the mechanism, or all that the user has. Sessions that are open go on."""
        known = [one for one in self.users() if one.name == user] if mechanism is None else []
        for name in [name for one in known for name in one.iterations] or [mechanism or "SCRAM-SHA-256"]:
            deletion = ScramCredentialDeletion(name=user, mechanism=_mechanism(name))
            self._alter_user(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))

    def _alter_user(self, request: AlterUserScramCredentialsRequest) -> None:
        (result,) = self._controller().send(request, AlterUserScramCredentialsResponse).results
        self._check(result.error_code, result.error_message, f"user {result.user!r} was not changed", on_cluster(ALTER))

    # -- access rules

    def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """The ACLs that match, or all, ordered by resource."""
        answer = self._bootstrap.send(describe_request(wanted or AclFilter()), DescribeAclsResponse)
        self._check(answer.error_code, answer.error_message, "the ACLs cannot be read", on_cluster(DESCRIBE))
        return described(answer)

    def create_acls(self, acls: Iterable[Acl]) -> None:
        """Adds ACLs. Those that are there already stay. Raises for the first that is refused; the others are added."""
        wanted = list(acls)
        answer = self._controller().send(create_request(wanted), CreateAclsResponse)
        for acl, result in zip(wanted, answer.results, strict=True):
            self._check(result.error_code, result.error_message, f"this ACL was not added: {acl}", on_cluster(ALTER))

    def delete_acls(self, filters: Iterable[AclFilter]) -> list[Acl]:
        """Removes the ACLs that match any of the filters, and returns them."""
        removed: set[Acl] = set()
        for result in self._controller().send(delete_request(list(filters)), DeleteAclsResponse).filter_results:
            self._check(result.error_code, result.error_message, "the ACLs were not removed", on_cluster(ALTER))
            removed.update(deleted(result))
        return sorted(removed)

    def _list_offsets(
        self, leader: Connection, partitions: list[TopicPartition], which: int
    ) -> dict[TopicPartition, int]:
        request = list_offsets_request(dict.fromkeys(partitions, which))
        found = dict(listed_offsets(leader.send(request, ListOffsetsResponse)))
        for partition, one in found.items():
            what = f"the offsets of {partition} cannot be read"
            self._check(one.error_code, None, what, on_topic(DESCRIBE, partition.topic))
        return {partition: one.offset for partition, one in found.items()}

    def _check(self, code: int, broker_says: str | None, otherwise: str, *actions: Action) -> None:
        """Of a denial brokers say "Authorization failed." at most."""
        if code:
            what = otherwise if code in RESOURCE_OF else broker_says or otherwise
            raise error_from(code, what, *actions, principal=self._security.principal)

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout * 1000)

    def _metadata(self, names: list[str] | None) -> MetadataResponse:
        return self._bootstrap.send(metadata_request(names), MetadataResponse)

    def _find(self, name: str) -> tuple[MetadataResponse, MetadataResponseTopic]:
        metadata = self._metadata([name])
        (topic,) = metadata.topics
        where = self._bootstrap.address
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            what = f"topic {name!r} does not exist at {where}: create it, or check its name"
            self._check(topic.error_code, None, what)
        self._check(topic.error_code, None, f"{where} cannot describe topic {name!r}", on_topic(DESCRIBE, name))
        return metadata, topic

    def _controller(self) -> Connection:
        """A cluster that names no controller forwards such requests by itself, or answers NOT_CONTROLLER."""
        controller = _metadata_of(self._metadata([])).controller
        return self._bootstrap if controller is None else self._connection(controller.address)

    def _reach(self, addresses: list[Address]) -> Connection:
        """Connects to the first server that answers. A server may hang, so each is tried for a short time before any
        is waited for."""
        for patience in patience_rounds(self._timeout) if len(addresses) > 1 else [self._timeout]:
            failures = []
            for address in addresses:
                try:
                    return self._connection(address, patience)
                except KafkaConnectionError as error:
                    if is_final(error):
                        raise
                    failures.append(str(error))
        raise KafkaConnectionError("; ".join(failures))

    def _connection(self, address: Address, setup_timeout: float | None = None) -> Connection:
        known = self._by_address.get(address)
        if known is None:
            known = Connection(
                *address,
                client_id=self._client_id,
                timeout=setup_timeout or self._timeout,
                security=self._security,
            )
            known.timeout = self._timeout
            self._by_address[address] = self._open.enter_context(known)
        return known


def _mechanism(name: str) -> ScramMechanism:
    if name not in HASHES:
        raise UsageError(f"{name!r} is no mechanism of SCRAM: write {' or '.join(HASHES)}")
    return ScramMechanism[name.replace("-", "_")]


def _cluster(metadata: MetadataResponse) -> ClusterDescription:
    brokers = [BrokerDescription(one.node_id, one.host, one.port, one.rack) for one in metadata.brokers]
    return ClusterDescription(metadata.cluster_id, metadata.controller_id, sorted(brokers))


def _describe(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = [
        PartitionDescription(one.partition_index, one.leader_id, one.replica_nodes, one.isr_nodes)
        for one in topic.partitions
    ]
    return TopicDescription(topic.name or "", topic.topic_id, topic.is_internal, sorted(partitions))


def _metadata_of(response: MetadataResponse) -> Metadata:
    metadata = Metadata()
    metadata.update(response)
    return metadata
