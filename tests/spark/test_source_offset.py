"""Offsets as they stand in a checkpoint: one text for one place, and enough in it to read a batch again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.member import TopicPartition
from equipoise.spark.source.offset_commits import commit_metadata, own_batch
from equipoise.spark.source.source_offset import INITIAL, SourceOffset
from equipoise.wire.errors import UsageError

PLACES = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b.c", "ü"]), st.integers(0, 30)), st.integers(0, 2**63 - 1)
)


def tp(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, partition)


def text(offset: SourceOffset) -> str:
    return json.dumps(offset.json())


@given(to=PLACES, since=PLACES, batch=st.integers(0, 2**40), seen=st.dictionaries(st.text(max_size=3), st.integers(1)))
def test_what_is_written_is_read_back_and_written_the_same(
    to: dict[TopicPartition, int], since: dict[TopicPartition, int], batch: int, seen: dict[str, int]
) -> None:
    offset = SourceOffset(to=to, since=since, query="q", batch=batch, seen=seen)
    again = SourceOffset.parse(json.loads(text(offset)))
    assert again == offset
    assert text(again) == text(offset)


def test_the_order_in_which_partitions_were_found_does_not_show() -> None:
    """Spark compares texts: a difference would be a batch without records, again and again."""
    places = {tp(10): 1, tp(2): 2, tp(0, "a"): 3}
    one = SourceOffset(to=places, query="q", batch=0, seen={"t": 2, "a": 1})
    other = SourceOffset(to=dict(reversed(places.items())), query="q", batch=0, seen={"a": 1, "t": 2})
    assert text(one) == text(other)
    assert text(one) == (
        '{"v": 1, "query": "q", "batch": 0, "to": {"a": {"0": 3}, "t": {"2": 2, "10": 1}}, "seen": {"a": 1, "t": 2}}'
    )


def test_the_initial_offset_is_always_the_same_text() -> None:
    assert text(INITIAL) == '{"v": 1}'
    assert SourceOffset.parse({"v": 1}).is_initial


def test_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match="version 2, this release knows 1: read it with the release that wrote it"):
        SourceOffset.parse({"v": 2, "to": {}})


def test_the_official_connectors_checkpoint_is_taken_over() -> None:
    taken = SourceOffset.parse(json.loads('{"t":{"1":7,"0":5},"other":{"0":0}}'))
    assert taken.to == {tp(0): 5, tp(1): 7, tp(0, "other"): 0}
    assert not taken.is_initial
    assert not taken.query


@pytest.mark.parametrize("given", [{"t": 5}, {"t": {"zero": 5}}, {"logOffset": 3}, {"t": None}])
def test_a_checkpoint_of_another_source_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is no offset of this source: begin with a new checkpoint"):
        SourceOffset.parse(given)


def test_ranges_begin_where_the_offset_before_ended_or_where_the_end_says() -> None:
    before = SourceOffset(to={tp(0): 5, tp(1): 7, tp(3): 9}, query="q", batch=0)
    end = SourceOffset(to={tp(0): 8, tp(1): 20, tp(2): 4, tp(3): 9}, since={tp(1): 15, tp(2): 1}, query="q", batch=1)
    assert end.ranges(before) == {tp(0): (5, 8), tp(1): (15, 20), tp(2): (1, 4)}


def test_a_range_without_beginning_is_refused() -> None:
    with pytest.raises(UsageError, match="the checkpoint does not say where t-0 begins"):
        SourceOffset(to={tp(0): 5}, query="q", batch=0).ranges(INITIAL)


def test_a_query_knows_its_own_commits() -> None:
    mine = SourceOffset(query="a1", batch=12)
    assert own_batch(commit_metadata(mine), "a1") == 12
    assert own_batch(commit_metadata(SourceOffset(query="a1")), "a1") == -1
    for metadata, query in [
        (commit_metadata(mine), "a"),
        (commit_metadata(mine), "a12"),
        ("", "a1"),
        ("equipoise query= batch=1", ""),
    ]:
        assert own_batch(metadata, query) is None
