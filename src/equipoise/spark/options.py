"""The source's options, under the names of Spark's own Kafka connector, with its defaults and refusals.

Names have no case, as in Spark. docs/spark.md lists them.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from equipoise.client.consumer.config import EARLIEST, LATEST, ConsumerConfig
from equipoise.member.partitions import TopicPartition, listed
from equipoise.settings import INT_MAX, LONG_MAX, convert, nearest
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

DOCUMENT = "docs/spark.md"
GROUP = -3  # as the default of an OffsetRangeLimit: where the group stands
KAFKA = "kafka."
_WORDS = {"earliest": EARLIEST, "latest": LATEST, "group": GROUP}
_STRATEGIES = "subscribe", "subscribePattern", "assign"
_BATCH_ONLY = "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"
_STREAMING_ONLY = "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "group.mode", "delivery"
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
# What the official connector needs for its Java consumers; accepted, so that a job changes one word only.
WITHOUT_EFFECT = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafka.group.id",
)
SOURCE_OPTIONS = (
    *_STRATEGIES,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    *_BATCH_ONLY,
    *_STREAMING_ONLY,
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "group.id",
    *WITHOUT_EFFECT,
)
# Settings of a consumer that the source itself decides, and what to do instead.
_REFUSED = {
    "auto.offset.reset": "say where to begin with startingOffsets",
    "enable.auto.commit": "offsets are committed with each finished batch if group.id is given",
    "auto.commit.interval.ms": "offsets are committed with each finished batch if group.id is given",
    "key.deserializer": "keys come as binary: cast or decode the column key",
    "value.deserializer": "values come as binary: cast or decode the column value",
    "interceptor.classes": "interceptors could change what is read",
}
_UNITS_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
Given = dict[str, str]  # options by the names in SOURCE_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStrategy:
    """Which topics, as the options subscribe, subscribePattern and assign say: exactly one of them is given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def covers(self, topic: str) -> bool:
        """Whether the query reads a topic, or a part of it."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics or any(one.topic == topic for one in self.partitions)

    def __str__(self) -> str:
        return self.pattern or ", ".join(self.topics) or listed(self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRangeLimit:
    """Where to begin or end: all partitions at `default`, or each where `offsets` says."""

    default: int = EARLIEST  # EARLIEST, LATEST, GROUP; a timestamp in milliseconds if `is_time`
    is_time: bool = False
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  # EARLIEST and LATEST too; or timestamps
    on_no_match: str = "error"  # where no record is as young as the timestamp: "error", or "latest"
    option: str = "startingOffsets"  # by which it was given, for messages

    def at(self, partition: TopicPartition) -> int:
        """The offset, the time, or one of the constants for the earliest, the latest and the group's offset."""
        return self.offsets.get(partition, self.default)

    def check_names(self, partitions: Iterable[TopicPartition]) -> None:
        """UsageError unless `offsets`, if given, names these partitions and no others."""
        if not self.offsets:
            return
        read = set(partitions)
        missing, unknown = read - self.offsets.keys(), self.offsets.keys() - read
        if missing:
            raise UsageError(
                f"{self.option} leaves out {listed(missing)}: name every partition, with -2 for earliest "
                "and -1 for latest"
            )
        if unknown:
            raise UsageError(f"{self.option} names {listed(unknown)}, which the query does not read: leave them out")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Made by `parse`, which checks them."""

    consumer: ConsumerConfig
    strategy: ConsumerStrategy
    starting: OffsetRangeLimit
    ending: OffsetRangeLimit
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    group_mode: str | None = None  # "commit" or "member"; None without group.id, and in batch queries
    is_exactly_once: bool = False  # the sink commits the offsets of each batch with its rows

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> Self:
        """UsageError says in one sentence what is wrong and what to do."""
        given = by_known_names(options, SOURCE_OPTIONS)
        _check_kind_of_query(given, streaming)
        parsed = cls(
            consumer=_consumer(options, given.get("group.id")),
            strategy=_strategy(given),
            starting=_starting(given, streaming),
            ending=_ending(given),
            max_offsets_per_trigger=_count(given, "maxOffsetsPerTrigger"),
            min_offsets_per_trigger=_count(given, "minOffsetsPerTrigger"),
            max_trigger_delay_ms=duration_ms("maxTriggerDelay", given.get("maxTriggerDelay", "15m")),
            min_partitions=_count(given, "minPartitions", INT_MAX),
            max_records_per_partition=_count(given, "maxRecordsPerPartition"),
            fail_on_data_loss=convert("failOnDataLoss", given.get("failOnDataLoss", "true"), bool),
            include_headers=convert("includeHeaders", given.get("includeHeaders", "false"), bool),
            group_mode=_group_mode(given, streaming),
            is_exactly_once=_delivery(given) == EXACTLY_ONCE and streaming,
        )
        return parsed._checked()

    def _checked(self) -> Self:
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is not None and most is not None and least > most:
            raise UsageError(f"minOffsetsPerTrigger={least}: must not be above maxOffsetsPerTrigger, which is {most}")
        for limit in (self.starting, self.ending):
            if limit.default == GROUP and self.consumer.group_id is None:
                raise UsageError(f"{limit.option}=group needs the option group.id: which group?")
        _check_order(self.starting, self.ending)
        if self.group_mode == "member" and self.strategy.partitions:
            raise UsageError("assign leaves nothing to share: use subscribe, or set group.mode to commit")
        return self


# -- names


def by_known_names(options: Mapping[str, str], known: Iterable[str]) -> Given:
    """What was given, but for kafka.*, under the spelling in `known`; anything else is refused."""
    spelling = {name.lower(): name for name in known}
    given = {}
    for name, value in options.items():
        known_name = spelling.get(name.lower())
        if known_name is not None:
            given[known_name] = value.strip()
        elif not name.lower().startswith(KAFKA):
            names = [*spelling.values(), "kafka.bootstrap.servers"]
            raise UsageError(f"unknown option {name!r}{nearest(name, names, DOCUMENT)}")
    return given


def kafka_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The settings among the options: those that begin with `kafka.`, without it."""
    settings = {name.lower(): value for name, value in options.items() if name.lower().startswith(KAFKA)}
    if not settings.get("kafka.bootstrap.servers", "").strip():
        raise UsageError("the option kafka.bootstrap.servers is missing: name one or more brokers as HOST:PORT")
    return {name.removeprefix(KAFKA): value for name, value in settings.items()}


_FETCH_BYTES = {"max.partition.fetch.bytes", "fetch.message.max.bytes"}  # and librdkafka's word for it


def _consumer(options: Mapping[str, str], group_id: str | None) -> ConsumerConfig:
    settings: dict[str, object] = dict(kafka_settings(options))
    if settings.pop("group.id", None) is not None:
        log.warning("kafka.group.id has no effect, as nobody joins or commits with it: the option group.id does that")
    for name in settings:
        if name in _REFUSED:
            raise UsageError(f"the option kafka.{name} is not for Spark: {_REFUSED[name]}")
    if group_id is not None:
        settings["group.id"] = group_id
    if not _FETCH_BYTES & settings.keys():
        # A task reads to the end of its ranges, and each fetch has its cost.
        settings["max.partition.fetch.bytes"] = 4 << 20
    # A query must not create the topic whose name was mistyped.
    settings.setdefault("allow.auto.create.topics", "false")
    try:
        config = ConsumerConfig.parse(settings)
    except UsageError as error:
        raise UsageError(f"among the options kafka.*: {error}") from None
    if "partition.assignment.strategy" in settings:
        return config
    # In a classic group an eager assignor would stop all partitions in a rebalance, not only those that move.
    return replace(config, partition_assignment_strategy=("cooperative-sticky",))


def _check_kind_of_query(given: Given, streaming: bool) -> None:
    if streaming:
        for name in _BATCH_ONLY:
            if name in given:
                raise UsageError(f"{name} is for batch queries: a streaming query has no end, so leave it out")
        return
    for name in _STREAMING_ONLY:
        if name in given:
            log.warning("the option %s has no effect on a batch query", name)


# -- which topics


def _strategy(given: Given) -> ConsumerStrategy:
    chosen = [name for name in _STRATEGIES if name in given]
    if len(chosen) != 1:
        found = f"{' and '.join(chosen)} are given" if chosen else "none is"
        raise UsageError(f"give exactly one of subscribe, subscribePattern and assign; {found}")
    text = given[chosen[0]]
    if chosen == ["assign"]:
        return ConsumerStrategy(partitions=_assigned(text))
    if chosen == ["subscribePattern"]:
        return ConsumerStrategy(pattern=_pattern(text))
    topics = dict.fromkeys(topic for part in text.split(",") if (topic := part.strip()))
    if not topics:
        raise UsageError("subscribe is empty: name one topic, or several with commas")
    return ConsumerStrategy(topics=tuple(topics))


def _pattern(text: str) -> str:
    if not text:
        raise UsageError("subscribePattern is empty: give a regular expression, for instance orders-.*")
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(f"subscribePattern={text}: no regular expression: {error}") from None
    return text


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    form = 'write the partitions of each topic as JSON, for instance {"orders": [0, 1]}'
    topics = _json_object("assign", text, form)
    partitions = []
    for topic, numbers in topics.items():
        if not isinstance(numbers, list) or not all(_is_partition(number) for number in numbers):
            raise UsageError(f"assign={text}: {form}")
        partitions += [TopicPartition(topic, number) for number in numbers]
    if not partitions:
        raise UsageError(f"assign={text}: no partition is named: {form}")
    return tuple(sorted(set(partitions)))


# -- where to begin and to end


def _starting(given: Given, streaming: bool) -> OffsetRangeLimit:
    later = given.get("startingOffsetsByTimestampStrategy", "error").lower()
    if later not in ("error", "latest"):
        raise UsageError(f"startingOffsetsByTimestampStrategy={later}: must be error or latest")
    limit = _range_limit(given, "starting", LATEST if streaming else EARLIEST, later)
    if not streaming and not limit.is_time and LATEST in (limit.default, *limit.offsets.values()):
        raise UsageError(
            f"{limit.option}={given['startingOffsets']}: a batch query cannot begin at latest, there is nothing behind"
        )
    return limit


def _ending(given: Given) -> OffsetRangeLimit:
    limit = _range_limit(given, "ending", LATEST, "latest")
    if not limit.is_time and EARLIEST in (limit.default, *limit.offsets.values()):
        raise UsageError(
            f"{limit.option}={given['endingOffsets']}: a query cannot end at earliest, there is nothing before"
        )
    return limit


def _range_limit(given: Given, side: str, default: int, on_no_match: str) -> OffsetRangeLimit:
    """One timestamp for all goes before timestamps, and these before offsets, as in the official connector."""
    by_time, by_times, by_offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if by_time in given:
        timestamp = _number(by_time, given[by_time])
        return OffsetRangeLimit(default=timestamp, is_time=True, on_no_match=on_no_match, option=by_time)
    if by_times in given:
        offsets = _per_partition(by_times, given[by_times], lowest=0)
        return OffsetRangeLimit(
            default=default, is_time=True, offsets=offsets, on_no_match=on_no_match, option=by_times
        )
    text = given.get(by_offsets, "")
    if text.startswith("{"):
        offsets = _per_partition(by_offsets, text, lowest=EARLIEST)
        return OffsetRangeLimit(default=default, offsets=offsets, on_no_match=on_no_match, option=by_offsets)
    if text and text.lower() not in _WORDS:
        raise UsageError(
            f'{by_offsets}={text}: must be earliest, latest, group or JSON such as {{"orders": {{"0": 5}}}}'
        )
    return OffsetRangeLimit(
        default=_WORDS[text.lower()] if text else default, on_no_match=on_no_match, option=by_offsets
    )


def _check_order(starting: OffsetRangeLimit, ending: OffsetRangeLimit) -> None:
    """Where both name an offset, or both a time, a query must not end before it begins."""
    if starting.is_time != ending.is_time:
        return
    for partition in starting.offsets.keys() & ending.offsets.keys():
        first, last = starting.offsets[partition], ending.offsets[partition]
        if first > last >= 0:
            raise UsageError(
                f"{starting.option} has {partition} at {first}, behind {last}, where {ending.option} ends it"
            )
    if starting.is_time and not starting.offsets and not ending.offsets and starting.default > ending.default:
        raise UsageError(f"{starting.option}={starting.default} is later than {ending.option}={ending.default}")


def _per_partition(option: str, text: str, lowest: int) -> dict[TopicPartition, int]:
    form = 'write a number for each partition as JSON, for instance {"orders": {"0": 23, "1": 42}}'
    found = {}
    for topic, numbers in _json_object(option, text, form).items():
        if not isinstance(numbers, dict):
            raise UsageError(f"{option}={text}: {form}")
        for partition, number in numbers.items():
            if not partition.isdecimal() or type(number) is not int or not lowest <= number <= LONG_MAX:
                raise UsageError(f"{option}={text}: {partition!r}: {number!r} of {topic!r} will not do: {form}")
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise UsageError(f"{option}={text}: no partition is named: {form}")
    return found


def _json_object(option: str, text: str, form: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{option}={text}: {error}: {form}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{option}={text}: {form}")
    return found


def _is_partition(number: object) -> bool:
    return type(number) is int and 0 <= number <= INT_MAX


# -- groups, numbers and times


def _group_mode(given: Given, streaming: bool) -> str | None:
    mode = given.get("group.mode", "member")
    if mode not in ("member", "commit"):
        raise UsageError(f"group.mode={mode}: must be member (share the partitions) or commit (read them all)")
    if "group.mode" in given and "group.id" not in given:
        raise UsageError("group.mode needs the option group.id: which group?")
    return mode if streaming and "group.id" in given else None


def _delivery(given: Given) -> str:
    delivery = checked_delivery(given)
    if delivery == EXACTLY_ONCE and "group.id" not in given:
        raise UsageError("delivery=exactly-once of a source needs the option group.id: without a group leave it out")
    return delivery


def checked_delivery(given: Given) -> str:
    """The option delivery, of source and sink. UsageError: another value."""
    delivery = given.get("delivery", AT_LEAST_ONCE)
    if delivery not in (AT_LEAST_ONCE, EXACTLY_ONCE):
        raise UsageError(f"delivery={delivery}: it is {AT_LEAST_ONCE} or {EXACTLY_ONCE}")
    return delivery


def _count(given: Given, name: str, most: int = LONG_MAX) -> int | None:
    if name not in given:
        return None
    count = _number(name, given[name])
    if not 1 <= count <= most:
        raise UsageError(f"{name}={count}: must be between 1 and {most}")
    return count


def _number(name: str, text: str) -> int:
    number: int = convert(name, text, int)
    if not 0 <= number <= LONG_MAX:
        raise UsageError(f"{name}={text}: must be between 0 and {LONG_MAX}")
    return number


def duration_ms(name: str, text: str) -> int:
    """A time as Spark writes it: 500ms, 30s, 15m, 1h; milliseconds without a unit."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise UsageError(f"{name}={text}: must be a time such as 500ms, 30s, 15m or 1h")
    return int(found[1]) * _UNITS_MS[found[2]]
