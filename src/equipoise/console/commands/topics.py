"""`equipoise topics`: the functions of `Admin`, in words, tables and JSON."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping

import click

from equipoise.client import Admin, TopicPartition
from equipoise.client.admin import PartitionDescription, PartitionOffsets, TopicDescription
from equipoise.client.consumer.config import LATEST
from equipoise.console.commands.groups.changes import Result, has_failed, parse_topic, print_results
from equipoise.console.options import ClusterOptions, Whole, parse_pairs, parse_time
from equipoise.console.output import Output, confirmed, head_of, output_options, print_json
from equipoise.console.tables import counted, print_table
from equipoise.watching.watcher import wall_time
from equipoise.wire.errors import KafkaError, UsageError
from equipoise.wire.text import printable


@click.command("list")
@output_options
def topics_list(cluster: ClusterOptions, out: Output) -> None:
    """All topics, with their partitions."""
    with cluster.admin() as admin:
        topics = admin.topics()
        if out.json:
            print_json("topics", **head_of(admin), topics=[_plain(one) for one in topics])
            return
    if not topics:
        print(f"no topics on {printable(cluster.bootstrap_servers)}")
        return
    print_table(
        ("topic", "partitions", "replicas", "internal"),
        [(one.name, len(one.partitions), _replicas(one), "yes" if one.is_internal else "") for one in topics],
    )


@click.command("create")
@click.argument("name", metavar="TOPIC")
@click.option(
    "--partitions", metavar="N", type=Whole(-1), default=-1, show_default=True, help="-1: the broker's num.partitions."
)
@click.option(
    "--replication-factor",
    metavar="N",
    type=Whole(-1),
    default=-1,
    show_default=True,
    help="-1: the broker's default.replication.factor.",
)
@click.option("--config", metavar="NAME=VALUE", multiple=True, help="A topic config by Kafka's name; repeatable.")
@output_options
def topics_create(
    name: str,
    partitions: int,
    replication_factor: int,
    config: tuple[str, ...],
    cluster: ClusterOptions,
    out: Output,
) -> None:
    """A new topic."""
    configs = parse_pairs("--config", config)
    with cluster.admin() as admin:
        admin.create_topic(name, partitions, configs, replication_factor=replication_factor)
        count = len(admin.topic(name).partitions)
        told = f"created topic {printable(name)} with {counted(count, 'partition')}"
        _done(admin, out, told, Result(name, partitions=count))


@click.command("describe")
@click.argument("name", metavar="TOPIC")
@output_options
def topics_describe(name: str, cluster: ClusterOptions, out: Output) -> None:
    """A topic's configs, and its partitions with their offsets."""
    with cluster.admin() as admin:
        topic, offsets, configs = admin.topic(name), admin.offsets(name), admin.configs(name)
        if out.json:
            print_json("topics", **head_of(admin), topics=[_plain(topic, offsets, configs)])
            return
    records = sum(one.latest - one.earliest for one in offsets.values())
    print(f"topic {printable(name)}, id {_kafka_uuid(topic.topic_id)}")
    print(f"{counted(len(topic.partitions), 'partition')}, {counted(records, 'record')}")
    for key, value in sorted(configs.items()):
        print(printable(f"{key}={value}"))
    print_table(
        ("partition", "leader", "replicas", "in sync", "earliest", "latest"),
        [_row(partition, offsets[partition.partition]) for partition in topic.partitions],
    )


@click.command("add-partitions")
@click.argument("name", metavar="TOPIC")
@click.argument("total", metavar="TOTAL", type=Whole(1))
@output_options
def topics_add_partitions(name: str, total: int, cluster: ClusterOptions, out: Output) -> None:
    """More partitions for a topic, TOTAL in all. Keys may then go to other partitions than before."""
    with cluster.admin() as admin:
        admin.add_partitions(name, total)
        told = f"topic {printable(name)} has {counted(total, 'partition')}"
        _done(admin, out, told, Result(name, partitions=total))


@click.command("set")
@click.argument("name", metavar="TOPIC")
@click.argument("configs", metavar="NAME=VALUE...", nargs=-1, required=True)
@output_options
def topics_set(name: str, configs: tuple[str, ...], cluster: ClusterOptions, out: Output) -> None:
    """Configs of a topic; all others stay as they are. NAME= takes back the broker's default."""
    wanted = {key: value or None for key, value in parse_pairs("", configs, "retention.ms=3600000").items()}
    with cluster.admin() as admin:
        admin.set_configs(name, wanted)
        now = admin.configs(name)
        if out.json:
            _done(admin, out, "", Result(name))
            return
    print(f"topic {printable(name)}:")
    for key in wanted:
        print(printable(f"  {key}={now[key]}" if key in now else f"  {key} has the broker's default"))


@click.command("trim")
@click.argument("topic", metavar="TOPIC[:0-5,7]")
@click.option("--before", metavar="WHERE", required=True, help="An OFFSET, a time (7d, 2026-01-31), or latest: all.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_options
def topics_trim(topic: str, before: str, yes: bool, cluster: ClusterOptions, out: Output) -> None:
    """Delete the oldest records of a topic, for good."""
    name, numbers = parse_topic(topic)
    with cluster.admin() as admin:
        offsets = admin.offsets(name)
        wanted = _trim_points(
            admin, name, {key: offsets[key] for key in offsets if numbers is None or key in numbers}, before
        )
        gone = sum(max(0, wanted[one] - offsets[one.partition].earliest) for one in wanted)
        if not confirmed(f"Delete {counted(gone, 'record')} of {name}?", yes=yes):
            raise click.exceptions.Exit(1)
        admin.delete_records({one: at for one, at in wanted.items() if at > offsets[one.partition].earliest})
        told = f"deleted {counted(gone, 'record')} of {printable(name)}"
        _done(admin, out, told, Result(name, deleted_records=gone))


def _trim_points(
    admin: Admin, name: str, offsets: Mapping[int, PartitionOffsets], before: str
) -> dict[TopicPartition, int]:
    if not offsets:
        raise UsageError(f"topic {name!r} has no such partition")
    places = {TopicPartition(name, key): one for key, one in offsets.items()}
    if before == "latest":
        return {one: at.latest for one, at in places.items()}
    if before.isdecimal():
        return {one: min(int(before), at.latest) for one, at in places.items()}
    at_time = admin.list_offsets(dict.fromkeys(places, parse_time("--before", before, wall_time())))
    found: dict[TopicPartition, int] = {}
    for one, offset in at_time.items():
        if isinstance(offset, KafkaError):
            raise offset
        found[one] = places[one].latest if offset == LATEST else offset
    return found


@click.command("delete")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@output_options
def topics_delete(names: tuple[str, ...], cluster: ClusterOptions, out: Output) -> None:
    """Topics and all their records, for good."""
    with cluster.admin() as admin:
        results = [Result(name, _deleted(admin, name)) for name in dict.fromkeys(names)]
        if len(results) == 1 and results[0].error is not None:
            raise results[0].error
        print_results(admin, "deleted topic", results, out)
    sys.exit(has_failed(results))


def _deleted(admin: Admin, name: str) -> KafkaError | None:
    try:
        admin.delete_topic(name)
    except KafkaError as error:
        return error
    return None


COMMANDS = (
    topics_list,
    topics_create,
    topics_describe,
    topics_add_partitions,
    topics_set,
    topics_trim,
    topics_delete,
)


def _done(admin: Admin, out: Output, told: str, result: Result) -> None:
    if out.json:
        print_results(admin, "", [result], out)
    else:
        print(told)


def _plain(
    topic: TopicDescription,
    offsets: Mapping[int, PartitionOffsets] | None = None,
    configs: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """What was not asked for is null."""
    known = offsets or {}
    partitions = []
    for one in topic.partitions:
        at = known.get(one.partition)
        log = {"log_start": None if at is None else at.earliest, "log_end": None if at is None else at.latest}
        partitions.append(one._asdict() | log)
    return {
        "name": topic.name,
        "topic_id": _kafka_uuid(topic.topic_id),
        "is_internal": topic.is_internal,
        "partitions": partitions,
        "configs": None if configs is None else dict(sorted(configs.items())),
    }


def _row(partition: PartitionDescription, offsets: PartitionOffsets) -> tuple[str | int, ...]:
    replicas, in_sync = (",".join(map(str, nodes)) for nodes in (partition.replica_nodes, partition.isr_nodes))
    return partition.partition, partition.leader_id, replicas, in_sync, offsets.earliest, offsets.latest


def _kafka_uuid(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def _replicas(topic: TopicDescription) -> int:
    return max((len(one.replica_nodes) for one in topic.partitions), default=0)
