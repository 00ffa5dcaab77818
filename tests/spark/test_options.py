"""The source's options: those of Spark's own Kafka connector, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from equipoise.client.consumer.config import EARLIEST, LATEST
from equipoise.member.partitions import TopicPartition
from equipoise.spark.options import GROUP, ConsumerStrategy, OffsetRangeLimit, SourceOptions
from equipoise.wire.errors import UsageError

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def parse(streaming: bool = False, /, **options: str) -> SourceOptions:
    """Of topic t if nothing else is chosen; two underscores in a name stand for a dot."""
    given = {name.replace("__", "."): value for name, value in options.items()}
    if not given.keys() & {"subscribe", "subscribePattern", "assign"}:
        given["subscribe"] = "t"
    return SourceOptions.parse(SERVERS | given, streaming=streaming)


def refusal(streaming: bool = False, /, **options: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse(streaming, **options)
    return str(caught.value)


def test_defaults_are_those_of_the_official_connector() -> None:
    batch, stream = parse(), parse(True)
    assert (batch.starting.default, batch.ending.default) == (EARLIEST, LATEST)
    assert stream.starting.default == LATEST
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert (batch.min_partitions, batch.max_records_per_partition, batch.group_mode) == (None, None, None)
    assert (stream.max_offsets_per_trigger, stream.min_offsets_per_trigger) == (None, None)
    assert stream.max_trigger_delay_ms == 15 * 60_000


def test_names_are_read_without_regard_to_case() -> None:
    given = {"KAFKA.Bootstrap.Servers": "127.0.0.1:9092", "SubScribe": "t", "FAILONDATALOSS": "False"}
    options = SourceOptions.parse(given, streaming=True)
    assert options.consumer.bootstrap_servers == "127.0.0.1:9092"
    assert options.strategy == ConsumerStrategy(topics=("t",))
    assert not options.fail_on_data_loss


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({"subscribe": " a, b,,a "}, ConsumerStrategy(topics=("a", "b"))),
        ({"subscribePattern": "orders-.*"}, ConsumerStrategy(pattern="orders-.*")),
        ({"assign": '{"t": [1, 0], "a": [3]}'}, ConsumerStrategy(partitions=(TopicPartition("a", 3), T0, T1))),
    ],
)
def test_topics_are_chosen_in_one_of_three_ways(given: dict[str, str], chosen: ConsumerStrategy) -> None:
    assert parse(**given).strategy == chosen


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "a", "assign": '{"t": [0]}'}, "exactly one of .* subscribe and assign are given"),
        ({"subscribe": " , "}, "subscribe is empty"),
        ({"subscribePattern": ""}, "subscribePattern is empty"),
        ({"subscribePattern": "a("}, "no regular expression"),
        ({"assign": "t"}, "as JSON"),
        ({"assign": "[0]"}, "as JSON"),
        ({"assign": '{"t": 0}'}, "as JSON"),
        ({"assign": '{"t": [-1]}'}, "as JSON"),
        ({"assign": '{"t": [true]}'}, "as JSON"),
        ({"assign": '{"t": []}'}, "no partition is named"),
    ],
)
def test_a_choice_that_cannot_be(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SourceOptions.parse(SERVERS | given, streaming=False)


def test_no_choice_at_all() -> None:
    with pytest.raises(UsageError, match="exactly one of subscribe, subscribePattern and assign; none is"):
        SourceOptions.parse(SERVERS, streaming=False)


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({"startingOffsets": "Earliest"}, OffsetRangeLimit(default=EARLIEST)),
        ({"startingOffsets": '{"t": {"0": 5, "1": -2}}'}, OffsetRangeLimit(offsets={T0: 5, T1: EARLIEST})),
        ({"startingTimestamp": "1000"}, OffsetRangeLimit(default=1000, is_time=True, option="startingTimestamp")),
        (
            {"startingOffsetsByTimestamp": '{"t": {"0": 7}}', "startingOffsetsByTimestampStrategy": "LATEST"},
            OffsetRangeLimit(is_time=True, offsets={T0: 7}, on_no_match="latest", option="startingOffsetsByTimestamp"),
        ),
    ],
)
def test_places_to_begin(given: dict[str, str], limit: OffsetRangeLimit) -> None:
    assert parse(**given).starting == limit


def test_one_time_goes_before_times_and_these_before_offsets() -> None:
    given = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"t": {"0": 7}}'}
    assert parse(**given).starting.offsets == {T0: 7}
    assert parse(**given, startingTimestamp="9").starting.default == 9


def test_places_to_end() -> None:
    assert parse(endingOffsets='{"t": {"0": -1}}').ending.offsets == {T0: LATEST}
    assert parse(endingTimestamp="5").ending == OffsetRangeLimit(
        default=5, is_time=True, on_no_match="latest", option="endingTimestamp"
    )
    assert parse(endingOffsetsByTimestamp='{"t": {"1": 3}}').ending.offsets == {T1: 3}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingOffsets": "latest"}, "a batch query cannot begin at latest"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "a batch query cannot begin at latest"),
        ({"endingOffsets": "earliest"}, "cannot end at earliest"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "cannot end at earliest"),
        (
            {"startingOffsets": '{"t": {"0": 6}}', "endingOffsets": '{"t": {"0": 5}}'},
            "startingOffsets has t-0 at 6, behind 5, where endingOffsets ends it",
        ),
        ({"startingTimestamp": "6", "endingTimestamp": "5"}, "startingTimestamp=6 is later than endingTimestamp=5"),
        ({"startingOffsets": "soon"}, "must be earliest, latest, group or JSON"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "will not do"),
        ({"startingOffsets": '{"t": {"zero": 1}}'}, "will not do"),
        ({"startingOffsets": '{"t": {"0": 1.5}}'}, "will not do"),
        ({"startingOffsets": '{"t": 1}'}, "a number for each partition"),
        ({"startingOffsets": '{"t": {}}'}, "no partition is named"),
        ({"startingOffsets": "{t}"}, "a number for each partition"),
        ({"startingTimestamp": "now"}, "must be a number"),
        ({"startingTimestamp": "-1"}, "must be between 0"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "will not do"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "must be error or latest"),
        ({"startingOffsets": "group"}, "needs the option group.id"),
        ({"endingOffsets": "group"}, "needs the option group.id"),
    ],
)
def test_places_that_cannot_be(given: dict[str, str], said: str) -> None:
    assert said in refusal(**given)


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    assert f"{option} is for batch queries" in refusal(True, **{option: "1"})


def test_a_stream_may_begin_at_latest() -> None:
    assert parse(True, startingOffsets='{"t": {"0": -1}}').starting.offsets == {T0: LATEST}


def test_an_end_that_is_not_before_the_beginning() -> None:
    parse(startingOffsets='{"t": {"0": 6, "1": 3}}', endingOffsets='{"t": {"0": -1, "1": 3}}')
    parse(startingTimestamp="6", endingOffsetsByTimestamp='{"t": {"0": 5}}')
    parse(startingTimestamp="6", endingOffsets='{"t": {"0": 5}}')


def test_where_the_group_stands() -> None:
    options = parse(startingOffsets="group", group__id="g")
    assert (options.starting.default, options.consumer.group_id, options.group_mode) == (GROUP, "g", None)


def test_offsets_name_every_partition_and_no_others() -> None:
    limit = parse(startingOffsets='{"t": {"0": 5, "1": 6}}').starting
    limit.check_names([T0, T1])
    assert (limit.at(T0), limit.at(T1)) == (5, 6)
    with pytest.raises(UsageError, match="startingOffsets leaves out u-0"):
        limit.check_names([T0, T1, TopicPartition("u", 0)])
    with pytest.raises(UsageError, match="startingOffsets names t-1, which the query does not read"):
        limit.check_names([T0])
    OffsetRangeLimit().check_names([T0])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kafka.auto.offset.reset", "startingOffsets"),
        ("kafka.enable.auto.commit", "group.id"),
        ("kafka.auto.commit.interval.ms", "group.id"),
        ("kafka.key.deserializer", "column key"),
        ("kafka.value.deserializer", "column value"),
        ("kafka.interceptor.classes", "interceptors"),
    ],
)
def test_settings_that_the_source_decides(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SourceOptions.parse(SERVERS | {"subscribe": "t", name: "x"}, streaming=True)


def test_how_much_a_fetch_asks_for() -> None:
    assert parse().consumer.max_partition_fetch_bytes == 4 << 20
    assert parse(kafka__fetch__message__max__bytes="7000").consumer.max_partition_fetch_bytes == 7000


def test_settings_are_passed_on() -> None:
    consumer = parse(kafka__max__partition__fetch__bytes="5000", kafka__isolation__level="read_committed").consumer
    assert (consumer.max_partition_fetch_bytes, consumer.isolation) == (5000, 1)
    assert not consumer.allow_auto_create_topics, "a mistyped name must not become a topic"


def test_unknown_names_are_refused_with_the_nearest() -> None:
    assert refusal(startingOffset="earliest") == "unknown option 'startingOffset'; did you mean 'startingOffsets'?"
    assert "did you mean 'kafka.bootstrap.servers'?" in refusal(bootstrap__servers="x:1")
    assert "did you mean 'fetch.max.bytes'?" in refusal(kafka__fetch__max__byte="1")
    assert "docs/spark.md lists the names" in refusal(qqqqqqq="1")


def test_the_brokers_are_needed() -> None:
    with pytest.raises(UsageError, match=r"kafka\.bootstrap\.servers is missing"):
        SourceOptions.parse({"subscribe": "t"}, streaming=True)


def test_options_of_the_official_connector_without_a_meaning_here() -> None:
    without_effect = {
        "groupIdPrefix": "x",
        "kafkaConsumer.pollTimeoutMs": "5",
        "fetchOffset.numRetries": "3",
        "fetchOffset.retryIntervalMs": "10",
        "kafka.group.id": "mine",
    }
    options = SourceOptions.parse(SERVERS | {"subscribe": "t"} | without_effect, streaming=True)
    assert options == parse(True)


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("100", 100), ("5ms", 5), ("30s", 30_000), ("2 m", 120_000), ("1h", 3_600_000)]
)
def test_delays(text: str, milliseconds: int) -> None:
    assert parse(True, maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"maxTriggerDelay": "soon"}, "must be a time such as"),
        ({"maxTriggerDelay": "5 parsecs"}, "must be a time such as"),
        ({"maxOffsetsPerTrigger": "0"}, "must be between 1"),
        ({"maxOffsetsPerTrigger": "many"}, "must be a number"),
        ({"minPartitions": "-1"}, "must be between 0"),
        ({"maxRecordsPerPartition": "0"}, "must be between 1"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "must not be above maxOffsetsPerTrigger"),
        ({"failOnDataLoss": "no"}, "must be true or false"),
        ({"group.mode": "member"}, "needs the option group.id"),
        ({"group.mode": "all", "group.id": "g"}, "must be member"),
        ({"group.id": ""}, "group.id is empty"),
    ],
)
def test_values_that_cannot_be(given: dict[str, str], said: str) -> None:
    assert said in refusal(True, **given)


def test_modes_of_a_group() -> None:
    assert parse(True, group__id="g").group_mode == "member"
    assert parse(True, group__id="g", group__mode="commit").group_mode == "commit"


def test_a_batch_query_says_what_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    parse(maxOffsetsPerTrigger="5")
    assert "maxOffsetsPerTrigger has no effect on a batch query" in caplog.text


def test_options_travel_to_executors() -> None:
    options = parse(startingOffsets='{"t": {"0": 5}}', includeHeaders="true")
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(replace(options.consumer)) == hash(options.consumer), "connections are kept by the settings"
