"""Administration of any Kafka cluster: topics (list, create, grow, describe, trim, delete), groups, users, ACLs.

Every call fetches fresh metadata, and then asks the broker that is in charge. Nothing here is cached.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version as installed_version
from typing import NamedTuple

from equipoise.client.admin_acls import create_request, delete_request, deleted, describe_request, described
from equipoise.client.admin_connections import metadata_of
from equipoise.client.admin_transactions import TransactionAdmin
from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.client.metadata.list_offsets import all_listed, list_offsets_request, listed_offsets
from equipoise.client.metadata.metadata import Metadata
from equipoise.client.net.errors import error_from
from equipoise.member.partitions import TopicPartition
from equipoise.security.acls import Acl, AclFilter, AclOperation
from equipoise.security.denials import RESOURCE_OF, on_cluster, on_topic
from equipoise.security.sasl.scram import HASHES, MIN_ITERATIONS, salted_password
from equipoise.security.state import ScramMechanism
from equipoise.wire.apis.k02_list_offsets import ListOffsetsResponse
from equipoise.wire.apis.k03_metadata import MetadataResponse, MetadataResponseTopic
from equipoise.wire.apis.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from equipoise.wire.apis.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from equipoise.wire.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from equipoise.wire.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from equipoise.wire.apis.k29_describe_acls import DescribeAclsResponse
from equipoise.wire.apis.k30_create_acls import CreateAclsResponse
from equipoise.wire.apis.k31_delete_acls import DeleteAclsResponse
from equipoise.wire.apis.k32_describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from equipoise.wire.apis.k35_describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from equipoise.wire.apis.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from equipoise.wire.apis.k44_incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
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
from equipoise.wire.errors import ErrorCode, KafkaError, UsageError

CREATE, DELETE, ALTER = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER
ALTER_CONFIGS = AclOperation.ALTER_CONFIGS
DESCRIBE, DESCRIBE_CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
BROKER_DEFAULT = -1
_TOPIC_RESOURCE = 2
_SET_ON_TOPIC = 1
_SET, _DELETE = 0, 1  # of a config
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


class Admin(TransactionAdmin):
    """Manages topics, groups, transactions, users and ACLs. A refusal is a KafkaError, in the broker's words if any.

    with Admin("127.0.0.1:9092") as admin:
        admin.create_topic("orders", partitions=6, configs={"retention.ms": "3600000"})
    """

    def cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return _cluster(self._metadata([]))

    def features(self) -> dict[str, int]:
        """The versions that the cluster has agreed on, for instance metadata.version (KIP-584). Brokers do not tell the
        version of their software."""
        request = ApiVersionsRequest(
            client_software_name="equipoise", client_software_version=installed_version("equipoise")
        )
        answer = self._bootstrap.send(request, ApiVersionsResponse)
        self._check(answer.error_code, None, "the versions of the cluster cannot be read")
        return {one.name: one.max_version_level for one in answer.finalized_features}

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

    def set_configs(self, name: str, configs: Mapping[str, str | None]) -> None:
        """Changes configs of the topic, and leaves all others as they are. None: back to the broker's default."""
        rows = [
            IncrementalAlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
            for key, value in configs.items()
        ]
        resource = IncrementalAlterConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configs=rows)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (result,) = self._controller().send(request, IncrementalAlterConfigsResponse).responses
        what = f"the configs of topic {name!r} were not changed"
        self._check(result.error_code, result.error_message, what, on_topic(ALTER_CONFIGS, name))

    def offsets(self, name: str) -> dict[int, PartitionOffsets]:
        """The earliest and latest offset of each partition, from the partition's leader."""
        response, topic = self._find(name)
        for one in topic.partitions:
            self._check(one.error_code, None, f"partition {one.partition_index} of {name!r} has no leader")
        partitions = [TopicPartition(name, one.partition_index) for one in topic.partitions]
        metadata = metadata_of(response)
        earliest, latest = (
            all_listed(self._list_offsets(metadata, dict.fromkeys(partitions, which))) for which in (EARLIEST, LATEST)
        )
        return {one.partition: PartitionOffsets(earliest[one], latest[one]) for one in sorted(partitions)}

    def list_offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
        """The first offset at each timestamp or later, in one request for each leader. LATEST is the end, EARLIEST the
        beginning, -1 in the answer: there is none. A partition whose offset cannot be had gets the error: one without
        a leader hides no other."""
        topics = sorted({partition.topic for partition in timestamps})
        return self._list_offsets(metadata_of(self._metadata(topics)), timestamps) if topics else {}

    def _list_offsets(
        self, metadata: Metadata, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        found: dict[TopicPartition, int | KafkaError] = {}
        for node_id, mine in metadata.by_leader(timestamps).items():
            if node_id is None:
                found |= {one: self._leaderless(metadata, one) for one in mine}
                continue
            leader = self._connection(metadata.nodes[node_id].address)
            request = list_offsets_request({one: timestamps[one] for one in mine})
            for partition, row in listed_offsets(leader.send(request, ListOffsetsResponse)):
                found[partition] = row.offset
                if row.error_code:
                    what, action = f"the offsets of {partition} cannot be read", on_topic(DESCRIBE, partition.topic)
                    found[partition] = error_from(row.error_code, what, action, principal=self._security.principal)
        return found

    def _leaderless(self, metadata: Metadata, partition: TopicPartition) -> KafkaError:
        code = metadata.errors.get(partition.topic, ErrorCode.LEADER_NOT_AVAILABLE)
        if code == ErrorCode.LEADER_NOT_AVAILABLE and partition not in metadata.leaderless:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        what = f"{self._bootstrap.address} knows no broker that leads {partition}; it may be down"
        return error_from(code, what, on_topic(DESCRIBE, partition.topic), principal=self._security.principal)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes all records below these offsets; -1: all there are. Returns the first offset of each partition.
        KafkaError for the first partition that is refused."""
        found: dict[TopicPartition, int] = {}
        metadata = metadata_of(self._metadata(sorted({one.topic for one in before})))
        for node_id, mine in metadata.by_leader(before).items():
            if node_id is None:
                raise self._leaderless(metadata, mine[0])
            topics: dict[str, DeleteRecordsTopic] = {}
            for one in mine:
                topic = topics.setdefault(one.topic, DeleteRecordsTopic(name=one.topic, partitions=[]))
                topic.partitions.append(DeleteRecordsPartition(partition_index=one.partition, offset=before[one]))
            request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=self._timeout_ms)
            leader = self._connection(metadata.nodes[node_id].address)
            for answered in leader.send(request, DeleteRecordsResponse).topics:
                for row in answered.partitions:
                    partition = TopicPartition(answered.name, row.partition_index)
                    what = f"records of {partition} were not deleted"
                    self._check(row.error_code, None, what, on_topic(DELETE, partition.topic))
                    found[partition] = row.low_watermark
        return found

    def sizes(self) -> dict[TopicPartition, int]:
        """The bytes of each partition on disk, of its largest replica (DescribeLogDirs)."""
        found: dict[TopicPartition, int] = {}
        for broker in self._metadata([]).brokers:
            connection = self._connection((broker.host, broker.port))
            answer = connection.send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
            self._check(answer.error_code, None, "the sizes of logs cannot be read", on_cluster(DESCRIBE))
            for directory in answer.results:
                for topic in directory.topics:
                    for row in topic.partitions:
                        partition = TopicPartition(topic.name, row.partition_index)
                        found[partition] = max(found.get(partition, 0), row.partition_size)
        return found

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

    def _find(self, name: str) -> tuple[MetadataResponse, MetadataResponseTopic]:
        metadata = self._metadata([name])
        (topic,) = metadata.topics
        where = self._bootstrap.address
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            what = f"topic {name!r} does not exist at {where}: create it, or check its name"
            self._check(topic.error_code, None, what)
        self._check(topic.error_code, None, f"{where} cannot describe topic {name!r}", on_topic(DESCRIBE, name))
        return metadata, topic


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
