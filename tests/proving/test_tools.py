"""Kafka's command line tools say the same of our broker as of Apache Kafka, command by command, in the same state.

What a broker refuses is told in its own words; compared is the error that the tool makes of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from equipoise.client import Admin
from equipoise.wire.errors import ErrorCode, UsageError
from proving.brokers import BrokerProcess, EquipoiseBroker, KafkaBroker
from proving.tools import Output, Tools
from tests.proving.needed import needed
from tests.proving.raw_members import RawGroup, commit

pytestmark = pytest.mark.kafka

SETTINGS = {
    "group.initial.rebalance.delay.ms": 1000,
    "group.initial.rebalance.delay.quiet.ms": 0,  # which Kafka does not know
    "offsets.topic.num.partitions": 3,
    "log.retention.ms": -1,  # the records below are old
}
FIRST_TIMESTAMP = 1_700_000_000_000  # 2023-11-14T22:13:20Z

KEYS = "--formatter-property print.key=true --formatter-property print.offset=true"
# Each line is run on both brokers. It begins with a tool; what stands after << is its stdin.
GROUPS_READ = """
kafka-consumer-groups --list
kafka-consumer-groups --list --state
kafka-consumer-groups --list --state stable
kafka-consumer-groups --list --type
kafka-consumer-groups --list --type classic
kafka-consumer-groups --describe --group live
kafka-consumer-groups --describe --group live --members
kafka-consumer-groups --describe --group live --members --verbose
kafka-consumer-groups --describe --group live --state
kafka-consumer-groups --describe --group live --state --verbose
kafka-consumer-groups --describe --group live --offsets --verbose
kafka-consumer-groups --describe --group idle
kafka-consumer-groups --describe --all-groups
kafka-consumer-groups --describe --all-groups --state
kafka-consumer-groups --describe --group nosuch
kafka-consumer-groups --describe --group nosuch --state
kafka-groups --list
kafka-groups --list --consumer
"""

USERS = """
kafka-configs --describe --entity-type users
kafka-configs --alter --entity-type users --entity-name alice --add-config SCRAM-SHA-256=[iterations=8192,password=a]
kafka-configs --alter --entity-type users --entity-name alice --add-config SCRAM-SHA-512=[password=a-secret]
kafka-configs --alter --entity-type users --entity-name bob --add-config SCRAM-SHA-512=[password=b]
kafka-configs --alter --entity-type users --entity-name bob --add-config SCRAM-SHA-512=[iterations=4095,password=b]
kafka-configs --alter --entity-type users --entity-name bob --add-config SCRAM-SHA-512=[iterations=16385,password=b]
kafka-configs --describe --entity-type users
kafka-configs --describe --entity-type users --entity-name alice
kafka-configs --describe --entity-type users --entity-name nobody
kafka-configs --describe --user alice
kafka-configs --alter --entity-type users --entity-name bob --delete-config SCRAM-SHA-512
kafka-configs --alter --entity-type users --entity-name bob --delete-config SCRAM-SHA-512
kafka-configs --describe --entity-type users --entity-name bob
kafka-configs --alter --user alice --add-config producer_byte_rate=1024,request_percentage=12.5
kafka-configs --alter --entity-type users --entity-default --add-config consumer_byte_rate=2048
kafka-configs --alter --entity-type clients --entity-name c --add-config consumer_byte_rate=4096
kafka-configs --alter --user alice --client c --add-config controller_mutation_rate=0.5
kafka-configs --alter --user alice --client-defaults --add-config producer_byte_rate=8192
kafka-configs --alter --entity-type ips --entity-name 127.0.0.1 --add-config connection_creation_rate=1000
kafka-configs --alter --entity-type users --entity-name alice --add-config producer_byte_rate=-1
kafka-configs --alter --entity-type users --entity-name alice --add-config producer_byte_rate=1.5
kafka-configs --alter --entity-type users --entity-name alice --add-config connection_creation_rate=1
kafka-configs --describe --entity-type users
kafka-configs --describe --entity-type users --entity-name alice
kafka-configs --describe --entity-type users --entity-default
kafka-configs --describe --entity-type clients
kafka-configs --describe --entity-type users --entity-type clients
kafka-configs --describe --entity-type users --entity-name alice --entity-type clients --entity-name c
kafka-configs --describe --entity-type ips
kafka-configs --alter --entity-type users --entity-name alice --delete-config producer_byte_rate,request_percentage
kafka-configs --alter --entity-type users --entity-name alice --delete-config producer_byte_rate
kafka-configs --alter --entity-type users --entity-default --delete-config consumer_byte_rate
kafka-configs --alter --entity-type clients --entity-name c --delete-config consumer_byte_rate
kafka-configs --describe --entity-type users
kafka-configs --describe --entity-type clients
"""

GROUPS_CHANGED = """
kafka-consumer-groups --reset-offsets --group live --topic orders --to-earliest --execute
kafka-consumer-groups --reset-offsets --group idle --topic orders --to-earliest --dry-run
kafka-consumer-groups --describe --group idle
kafka-consumer-groups --reset-offsets --group idle --topic orders --to-earliest --execute
kafka-consumer-groups --describe --group idle
kafka-consumer-groups --reset-offsets --group idle --topic orders --shift-by 4 --execute
kafka-consumer-groups --reset-offsets --group idle --topic orders:1 --shift-by -1 --execute
kafka-consumer-groups --reset-offsets --group idle --topic orders --to-datetime 2023-11-14T22:13:25.000Z --execute
kafka-consumer-groups --reset-offsets --group idle --topic orders --by-duration P1D --dry-run
kafka-consumer-groups --reset-offsets --group idle --topic orders:0 --to-offset 5 --execute --export
kafka-consumer-groups --reset-offsets --group idle --topic orders:0 --to-offset 50 --execute
kafka-consumer-groups --reset-offsets --group idle --topic orders --to-current --dry-run --export
kafka-consumer-groups --reset-offsets --group idle --from-file {directory}/reset.csv --execute
kafka-consumer-groups --reset-offsets --group idle --all-topics --to-latest --execute
kafka-consumer-groups --reset-offsets --group fresh --topic orders --to-earliest --execute
kafka-consumer-groups --reset-offsets --group fresh --topic nosuch --to-earliest --execute
kafka-consumer-groups --describe --group fresh
kafka-consumer-groups --delete-offsets --group idle --topic quiet
kafka-consumer-groups --delete-offsets --group idle --topic orders:2
kafka-consumer-groups --delete-offsets --group live --topic orders
kafka-consumer-groups --delete-offsets --group nosuch --topic orders
kafka-consumer-groups --describe --group idle
kafka-consumer-groups --delete --group live
kafka-consumer-groups --delete --group nosuch
kafka-consumer-groups --delete --group fresh
kafka-consumer-groups --delete --group idle --group live
kafka-consumer-groups --list
"""

TOPICS = """
kafka-topics --list
kafka-topics --list --exclude-internal
kafka-topics --describe --exclude-internal
kafka-topics --describe --topic orders
kafka-topics --describe --topic nosuch
kafka-topics --create --topic orders
kafka-topics --create --topic orders --if-not-exists
kafka-topics --create --topic bad/name
kafka-topics --create --topic wide --replication-factor 3
kafka-topics --create --topic odd --config no.such.config=1
kafka-topics --create --topic odd --config retention.ms=soon
kafka-topics --create --topic made --partitions 2 --replication-factor 1 --config cleanup.policy=compact
kafka-topics --describe --topic made
kafka-topics --alter --topic made --partitions 4
kafka-topics --alter --topic made --partitions 3
kafka-topics --alter --topic nosuch --partitions 3
kafka-topics --describe --topic made
kafka-topics --describe --under-replicated-partitions
kafka-topics --describe --unavailable-partitions
kafka-topics --delete --topic made
kafka-topics --delete --topic nosuch
kafka-topics --delete --topic nosuch --if-exists
kafka-topics --list --exclude-internal
"""

CONFIGS = """
kafka-configs --describe --entity-type topics --entity-name orders
kafka-configs --alter --entity-type topics --entity-name orders --add-config cleanup.policy=[delete,compact]
kafka-configs --describe --entity-type topics --entity-name orders
kafka-configs --alter --entity-type topics --entity-name orders --add-config retention.ms=99999999999999
kafka-configs --describe --entity-type topics --entity-name orders
kafka-configs --alter --entity-type topics --entity-name orders --delete-config retention.ms
kafka-configs --describe --entity-type topics --entity-name orders
kafka-configs --alter --entity-type topics --entity-name orders --delete-config cleanup.policy
kafka-configs --alter --entity-type topics --entity-name orders --delete-config retention.bytes
kafka-configs --alter --entity-type topics --entity-name orders --add-config flush.ms=soon
kafka-configs --alter --entity-type topics --entity-name orders --add-config preallocate=perhaps
kafka-configs --alter --entity-type topics --entity-name orders --add-config compression.zstd.level=7
kafka-configs --alter --entity-type topics --entity-name orders --delete-config compression.zstd.level
kafka-configs --alter --entity-type topics --entity-name orders --add-config no.such=1
kafka-configs --alter --entity-type topics --entity-name orders --add-config retention.ms=soon
kafka-configs --alter --entity-type topics --entity-name nosuch --add-config retention.ms=1
kafka-configs --describe --entity-type topics --entity-name nosuch
kafka-configs --describe --entity-type topics
kafka-configs --describe --entity-type brokers --entity-name 1
kafka-configs --describe --entity-type brokers
kafka-configs --describe --entity-type groups --entity-name idle
kafka-configs --describe --entity-type groups
kafka-configs --alter --entity-type groups --entity-name idle --add-config consumer.session.timeout.ms=50000
kafka-configs --alter --entity-type groups --entity-name new --add-config consumer.heartbeat.interval.ms=7000
kafka-configs --describe --entity-type groups --entity-name idle
kafka-configs --describe --entity-type groups
kafka-configs --alter --entity-type groups --entity-name new --add-config consumer.heartbeat.interval.ms=4999
kafka-configs --alter --entity-type groups --entity-name new --add-config consumer.session.timeout.ms=60001
kafka-configs --alter --entity-type groups --entity-name new --add-config consumer.assignment.interval.ms=-1
kafka-configs --alter --entity-type groups --entity-name new --add-config consumer.session.timeout.ms=soon
kafka-configs --alter --entity-type groups --entity-name new --add-config no.such=1
kafka-configs --alter --entity-type groups --entity-name new --add-config consumer.assignment.interval.ms=0
kafka-configs --describe --entity-type groups --entity-name new
kafka-configs --alter --entity-type groups --entity-name new --delete-config consumer.heartbeat.interval.ms
kafka-configs --alter --entity-type groups --entity-name new --delete-config consumer.heartbeat.interval.ms
kafka-configs --describe --entity-type groups --entity-name new
kafka-configs --alter --entity-type groups --entity-name new --delete-config consumer.assignment.interval.ms
kafka-configs --alter --entity-type groups --entity-name idle --delete-config consumer.session.timeout.ms
kafka-configs --describe --entity-type groups
"""

RECORDS = r"""
kafka-get-offsets --topic orders
kafka-get-offsets --topic orders --time earliest
kafka-get-offsets --topic orders --time max-timestamp
kafka-get-offsets --topic orders --time 1700000005500
kafka-get-offsets --topic orders --time earliest-local
kafka-get-offsets --topic orders --time latest-tiered
kafka-get-offsets --topic nosuch
kafka-get-offsets --exclude-internal-topics
kafka-get-offsets --topic-partitions orders:0-2,quiet
kafka-console-producer --topic typed --compression-codec zstd --reader-property parse.key=true << a\t1\nb\t2\nc\t3\n
kafka-console-consumer --timeout-ms 60000 --topic typed --from-beginning --max-messages 3 --group typed {keys}
kafka-consumer-groups --describe --group typed
kafka-console-consumer --timeout-ms 60000 --topic orders --partition 1 --offset 2 --max-messages 3 {keys}
kafka-console-consumer --topic orders --partition 1 --offset latest --timeout-ms 200
kafka-delete-records --offset-json-file {directory}/delete.json
kafka-get-offsets --topic orders --time earliest
"""


CLUSTER = """
kafka-log-dirs --describe --topic-list orders,quiet
kafka-log-dirs --describe --topic-list nosuch
kafka-leader-election --election-type preferred --all-topic-partitions
kafka-leader-election --election-type preferred --topic orders --partition 0
kafka-leader-election --election-type unclean --topic orders --partition 1
kafka-leader-election --election-type preferred --topic nosuch --partition 0
kafka-leader-election --election-type preferred --path-to-json-file {directory}/elect.json
kafka-reassign-partitions --list
kafka-reassign-partitions --execute --reassignment-json-file {directory}/same.json
kafka-reassign-partitions --verify --reassignment-json-file {directory}/same.json
kafka-reassign-partitions --execute --reassignment-json-file {directory}/elsewhere.json
kafka-reassign-partitions --cancel --reassignment-json-file {directory}/same.json
"""


class Pair:
    """Apache Kafka and ours, with the same topics, records, groups and commits."""

    def __init__(self, tools: Tools, brokers: list[BrokerProcess], directory: Path) -> None:
        self.tools = tools
        self.brokers = brokers
        self.directory = directory

    def outputs(self, line: str) -> list[Output]:
        words, _, stdin = line.format(directory=self.directory, keys=KEYS).partition(" << ")
        tool, *arguments = words.split(" ")
        given = stdin.replace("\\n", "\n").replace("\\t", "\t")
        return [self.tools.run(tool, *arguments, broker=broker, stdin=given) for broker in self.brokers]

    def differences(self, script: str) -> list[str]:
        found = []
        for line in script.strip().splitlines():
            kafka, ours = (normalised(output) for output in self.outputs(line))
            if kafka != ours:
                found.append("\n".join([line, "  Kafka:", *kafka, "  ours:", *ours]))
        return found


# What differs between any two clusters.
_OWN = {
    r"127\.0\.0\.1:\d+": "ADDRESS",
    r"/[^\"]*/data(/logs)?\"": 'DIRECTORY"',
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}": "UUID",
    r"TopicId: \S{22}": "TopicId: ID",
}
# What differs between Kafka and us, for a reason.
_LISTED = {
    # The broker's words. The error itself is in the name of the exception, or in the tool's own words.
    r"Error while executing topic command : .*": "Error while executing topic command",
    r"(\w+Exception): .*": r"\1",
    # Kafka writes this config for the whole cluster because of its eligible leader replicas; we have no replicas.
    r"^  min\.insync\.replicas=1 .*": "",
    r"min\.insync\.replicas=1,?": "",
    # The journal of rebalances is a topic of ours.
    r"^.*\b__rebalances\b.*": "",
    # Kafka gives defaults as synonyms only where the setting behind them has one.
    r",? ?DEFAULT_CONFIG:[^,}]*": "",
    # For Kafka it is a config of the topic, for us the only way there is.
    r"^  compression\.type=producer .*": "",
}


def _in_order(line: str) -> str:
    """The partitions of a log directory, and the configs of a user or client: they come in the order of a hash map."""
    if (listed := re.fullmatch(r"((?:Quota|SCRAM credential) configs for .* are )(.*)", line)) is not None:
        return listed[1] + ", ".join(sorted(listed[2].split(", ")))
    if not line.startswith('{"brokers":'):
        return line
    found = json.loads(line)
    for broker in found["brokers"]:
        for directory in broker["logDirs"]:
            directory["partitions"].sort(key=lambda row: row["partition"])
    return json.dumps(found)


def normalised(output: Output) -> list[str]:
    """Status and lines. Rows come in the order of a hash map with ids in it, so they are sorted."""
    lines = [line for line in (output.stdout + output.stderr).splitlines() if not line.startswith("\tat ")]
    lines = [_in_order(line) for line in lines]
    for pattern, replacement in (_OWN | _LISTED).items():
        lines = [re.sub(pattern, replacement, line) for line in lines]
    return [f"status {output.status}", *sorted(filter(str.strip, lines))]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("tools")
    places = [{"topic": "orders", "partition": index} for index in (0, 1)]
    (directory / "elect.json").write_text(json.dumps({"partitions": places}))
    for name, node in {"same": 1, "elsewhere": 2}.items():
        rows = [{**place, "replicas": [node]} for place in places]
        (directory / f"{name}.json").write_text(json.dumps({"version": 1, "partitions": rows}))
    (directory / "reset.csv").write_text("orders,0,4\norders,1,1\n")
    (directory / "delete.json").write_text('{"partitions":[{"topic":"orders","partition":0,"offset":2}],"version":1}')
    with ExitStack() as stack:
        brokers: list[BrokerProcess] = [stack.enter_context(needed(lambda: KafkaBroker(SETTINGS)))]
        brokers.append(stack.enter_context(EquipoiseBroker(SETTINGS)))
        for broker in brokers:
            fill(broker, stack)
        yield Pair(stack.enter_context(Tools()), brokers, directory)


def fill(broker: BrokerProcess, stack: ExitStack) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        for topic, partitions in {"orders": 3, "quiet": 1, "typed": 1}.items():
            admin.create_topic(topic, partitions)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(12):
        producer.produce("orders", f"v{number}", partition=number % 2, timestamp=FIRST_TIMESTAMP + number * 1000)
    assert producer.flush(120) == 0
    assignments = [{"orders": [0]}, {"orders": [1]}, {"orders": [2], "quiet": [0]}]
    live = stack.enter_context(RawGroup(broker.bootstrap_servers, "live", assignments, static=["till-1"]))
    member = live.members[0]
    assert member.commit("orders", {0: 3}) == {ErrorCode.NONE}
    for topic, offsets in {"orders": {0: 2, 1: 6, 2: 0}, "quiet": {0: 0}}.items():
        assert commit(member.client, "idle", topic, offsets, "a note") == {ErrorCode.NONE}


@pytest.mark.parametrize(
    "script",
    [GROUPS_READ, TOPICS, CONFIGS, RECORDS, CLUSTER, USERS, GROUPS_CHANGED],
    ids=["read", "topics", "configs", "records", "cluster", "users", "change"],
)
def test_the_tools_say_the_same_of_both_brokers(pair: Pair, script: str) -> None:
    assert pair.differences(script) == []


def test_every_group_config_has_the_value_it_has_in_kafka(pair: Pair) -> None:
    described = pair.outputs("kafka-configs --describe --all --entity-type groups --entity-name any")
    kafka, ours = (dict(re.findall(r"^  (\S+?)=(\S*) ", output.stdout, re.MULTILINE)) for output in described)
    assert ours.pop("consumer.assignor.offload.enable") == "true"  # newer than this Kafka
    assert ours.pop("classic.rebalance.incremental") == "cooperative"  # our own
    assert ours == {name: value for name, value in kafka.items() if name.startswith("consumer.")}
    assert len(ours) == 3


def test_the_feature_of_consumer_groups_is_described_alike(pair: Pair) -> None:
    kafka, ours = (
        [line for line in output.stdout.splitlines() if line.startswith("Feature: group.version")]
        for output in pair.outputs("kafka-features describe")
    )
    assert [line.rpartition("\t")[0] for line in ours] == [
        line.rpartition("\t")[0] for line in kafka
    ]  # the epoch is own
    assert "FinalizedVersionLevel: 1" in ours[0]


def test_every_topic_config_has_the_value_it_has_in_kafka(pair: Pair) -> None:
    described = pair.outputs("kafka-configs --describe --all --entity-type topics --entity-name quiet")
    kafka, ours = (dict(re.findall(r"^  (\S+?)=(\S*) ", output.stdout, re.MULTILINE)) for output in described)
    assert ours.items() <= kafka.items()
    assert len(ours) >= 26
    tiered_storage = {"local.retention.bytes", "local.retention.ms"}
    replication = {"follower.replication.throttled.replicas", "leader.replication.throttled.replicas"}
    missing = {name for name in kafka.keys() - ours.keys() if not name.startswith("remote.")}
    assert missing == tiered_storage | replication


def test_apis_are_served_in_the_versions_that_kafka_serves(pair: Pair) -> None:
    versions = [
        {
            name: (int(low), int(high or low))
            for name, low, high in re.findall(r"(\w+\(\d+\)): (\d+)(?: to (\d+))?", said)
        }
        for said in (output.stdout for output in pair.outputs("kafka-broker-api-versions"))
    ]
    kafka, ours = versions
    assert len(ours) >= 27
    differing = {name: served for name, served in ours.items() if kafka.get(name) != served}
    # The next of Kafka's, which 4.3 keeps for itself.
    assert differing == {"DeleteGroups(42)": (0, 3)}


def test_a_tool_that_does_not_exist_is_refused_by_name() -> None:
    with needed(Tools) as tools, pytest.raises(UsageError, match="kafka-nonsense"):
        tools.run("kafka-nonsense")
