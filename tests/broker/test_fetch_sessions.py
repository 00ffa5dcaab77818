"""Incremental fetch sessions (KIP-227), over the wire and as bookkeeping."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from equipoise.broker import Broker
from equipoise.broker.topics.fetch_sessions import (
    FULL,
    SESSIONLESS,
    CachedPartition,
    FetchContext,
    FetchData,
    FetchMetadata,
    FetchSessionCache,
    Key,
)
from equipoise.broker.topics.topics import SPARE_ELEMENTS
from equipoise.wire.apis.k01_fetch import FetchPartition, FetchRequest, ForgottenTopic
from equipoise.wire.apis.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from equipoise.wire.errors import ErrorCode, KafkaError
from tests.broker.calls import BY_NAME, append, create_topic, delete_topic, fetch_request, partitions_of, values_in
from tests.broker.conftest import Connect, Start, eventually
from tests.broker.rawclient import RawClient

BOTH = {("t", 0): 0, ("t", 1): 0}
NEW = {"session_id": 0, "session_epoch": FULL}


@pytest.fixture
def session(client: RawClient) -> int:
    """A session on both partitions of t, whose empty state its client has heard."""
    create_topic(client, partitions=2)
    answer = client.call(fetch_request(BOTH, **NEW), BY_NAME)
    assert list(partitions_of(answer)) == list(BOTH), "a full fetch is answered with every partition"
    return int(answer.session_id)


def next_fetch(client: RawClient, session_id: int, epoch: int, **options: Any) -> dict[tuple[str, int], Any]:
    options.setdefault("offsets", {})
    answer = client.call(fetch_request(session_id=session_id, session_epoch=epoch, **options), BY_NAME)
    assert (answer.error_code, answer.session_id) == (ErrorCode.NONE, session_id)
    return partitions_of(answer)


def test_a_full_fetch_opens_a_session(session: int) -> None:
    assert session > 0


def test_each_session_has_an_id_of_its_own(client: RawClient, session: int) -> None:
    assert client.call(fetch_request(BOTH, **NEW), BY_NAME).session_id != session


def test_an_incremental_answer_holds_only_partitions_with_news(client: RawClient, session: int) -> None:
    assert next_fetch(client, session, 1) == {}
    append(client, b"a", partition=1)
    answer = next_fetch(client, session, 2)
    assert {key: values_in(data) for key, data in answer.items()} == {("t", 1): [b"a"]}


def test_data_is_sent_again_until_the_client_moves_its_offset(client: RawClient, session: int) -> None:
    append(client, b"a", partition=1)
    assert list(next_fetch(client, session, 1)) == [("t", 1)]
    assert list(next_fetch(client, session, 2)) == [("t", 1)]
    assert next_fetch(client, session, 3, offsets={("t", 1): 1}) == {}


def test_a_moved_log_start_is_news_without_data(client: RawClient, session: int) -> None:
    append(client, b"a", partition=1)
    next_fetch(client, session, 1, offsets={("t", 1): 0})
    assert next_fetch(client, session, 2, offsets={("t", 1): 1}) == {}
    partition = DeleteRecordsPartition(partition_index=1, offset=1)
    client.call(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[partition])], timeout_ms=1000))
    answer = next_fetch(client, session, 3)
    assert [(key, data.log_start_offset, data.records) for key, data in answer.items()] == [(("t", 1), 1, b"")]
    assert next_fetch(client, session, 4) == {}


def test_an_error_is_news_every_time(client: RawClient, session: int) -> None:
    delete_topic(client, "t")
    for epoch in (1, 2):
        codes = {data.error_code for data in next_fetch(client, session, epoch).values()}
        assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_partitions_are_added_and_forgotten(client: RawClient, session: int) -> None:
    create_topic(client, "u")
    append(client, b"a", partition=0)
    append(client, b"b", topic="u")
    forgotten = [ForgottenTopic(topic="t", partitions=[0])]
    answer = next_fetch(client, session, 1, offsets={("u", 0): 0}, forgotten_topics_data=forgotten)
    assert {key: values_in(data) for key, data in answer.items()} == {("u", 0): [b"b"]}


def test_a_partition_that_gave_data_goes_behind_the_others(client: RawClient, session: int) -> None:
    append(client, b"a", partition=0)
    append(client, b"b", partition=1)
    assert list(next_fetch(client, session, 1, max_bytes=1)) == [("t", 0), ("t", 1)]
    answer = next_fetch(client, session, 2, max_bytes=1)
    assert {key: values_in(data) for key, data in answer.items()}[("t", 1)] == [b"b"]


def refused(client: RawClient, session_id: int, epoch: int) -> int:
    answer = client.call(fetch_request({}, session_id=session_id, session_epoch=epoch), BY_NAME)
    assert (answer.session_id, answer.responses) == (0, [])
    return int(answer.error_code)


def test_an_unknown_session_is_refused(client: RawClient, session: int) -> None:
    assert refused(client, session + 1, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 7, 2**31 - 1])
def test_a_wrong_epoch_is_refused_and_the_session_stays(client: RawClient, session: int, epoch: int) -> None:
    assert refused(client, session, epoch) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert next_fetch(client, session, 1) == {}


def test_epoch_minus_1_closes_the_session(client: RawClient, session: int) -> None:
    answer = client.call(fetch_request(BOTH, session_id=session, session_epoch=SESSIONLESS), BY_NAME)
    assert (answer.session_id, list(partitions_of(answer))) == (0, list(BOTH))
    assert refused(client, session, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epoch_0_with_an_id_replaces_the_session(client: RawClient, session: int) -> None:
    answer = client.call(fetch_request(BOTH, session_id=session, session_epoch=FULL), BY_NAME)
    assert answer.session_id not in (0, session)
    assert refused(client, session, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_when_all_slots_are_taken_the_session_id_is_0(start: Start, connect: Connect) -> None:
    client = connect(start({"max.incremental.fetch.session.cache.slots": 2}))
    create_topic(client, partitions=2)
    ids = [client.call(fetch_request(BOTH, **NEW), BY_NAME).session_id for _ in range(3)]
    assert ids[0] > 0
    assert ids[1] > 0
    assert ids[2] == 0


def test_a_session_by_name_cannot_go_on_by_id(client: RawClient, session: int) -> None:
    request = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session, session_epoch=1, topics=[])
    assert client.call(request, 13).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_versions_before_7_know_no_sessions(client: RawClient) -> None:
    create_topic(client, partitions=2)
    assert list(partitions_of(client.call(fetch_request(BOTH), 6))) == list(BOTH)


# -- the bookkeeping, where time passes


def many(count: int, topic: str = "t") -> list[CachedPartition]:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    return [CachedPartition((topic, index), asked) for index in range(count)]


def fetch(
    sessions: FetchSessionCache,
    session: tuple[int, int],
    partitions: list[CachedPartition] | None = None,
    *,
    forgotten: list[Key] | None = None,
    now: int = 0,
    owner: object = None,
) -> FetchContext:
    """`session`: its id, and the epoch of the request."""
    asked = FetchData(partitions or [], forgotten or [], by_id=False)
    return sessions.new_context(FetchMetadata(*session), asked, now, owner)


def open_session(sessions: FetchSessionCache, now: int) -> int:
    return fetch(sessions, (0, FULL), many(1), now=now).session_id


def test_a_session_unused_for_two_minutes_gives_its_slot_away() -> None:
    sessions = FetchSessionCache(1)
    first = open_session(sessions, now=0)
    assert open_session(sessions, now=119_999) == 0
    second = open_session(sessions, now=120_000)
    assert second not in (0, first)
    with pytest.raises(KafkaError) as raised:
        fetch(sessions, (first, 1), now=120_000)
    assert raised.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_using_a_session_keeps_its_slot() -> None:
    sessions = FetchSessionCache(1)
    first = open_session(sessions, now=0)
    fetch(sessions, (first, 1), now=100_000)
    assert open_session(sessions, now=120_000) == 0


def test_an_id_cannot_be_foreseen() -> None:
    """A session answers with names of topics, to whoever knows its id. Of 500 drawn ids hardly two are neighbours."""
    sessions = FetchSessionCache(500)
    ids = sorted(open_session(sessions, now=0) for _ in range(500))
    assert 0 < ids[0] <= ids[-1] < 2**31
    assert ids[-1] - ids[0] > 2**30
    assert sum(later - earlier < 1_000 for earlier, later in pairwise(ids)) < 10


def test_an_id_that_is_taken_is_drawn_anew() -> None:
    drawn = iter([6, 6, 6, 0])
    sessions = FetchSessionCache(5, draw=lambda _: next(drawn))
    assert [open_session(sessions, now=0), open_session(sessions, now=0)] == [7, 1]


def test_no_slots_means_no_sessions() -> None:
    assert open_session(FetchSessionCache(0), now=0) == 0


def test_a_fetch_of_nothing_opens_no_session() -> None:
    sessions = FetchSessionCache(5)
    assert fetch(sessions, (0, FULL)).session_id == 0
    assert len(sessions) == 0


def test_the_epoch_after_the_largest_is_1() -> None:
    sessions = FetchSessionCache(1)
    session_id = open_session(sessions, now=0)
    session = fetch(sessions, (session_id, 1)).session
    assert session is not None
    session.epoch = 2**31 - 1
    fetch(sessions, (session_id, 2**31 - 1))
    assert session.epoch == 1


def test_a_session_that_grows_bit_by_bit_is_given_up() -> None:
    """Otherwise a client could make one session hold any number of partitions."""
    sessions = FetchSessionCache(slots=1)
    session_id = open_session(sessions, now=0)
    fetch(sessions, (session_id, 1), many(40_000))
    with pytest.raises(KafkaError) as refused:
        fetch(sessions, (session_id, 2), many(40_000, "u"))
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0


# -- what all sessions together may hold


def open_large(sessions: FetchSessionCache, count: int, now: int = 0, owner: object = None) -> int:
    return fetch(sessions, (0, FULL), many(count), now=now, owner=owner).session_id


def test_sessions_hold_so_many_partitions_together() -> None:
    sessions = FetchSessionCache(1000, max_partitions=100)
    assert open_large(sessions, 60)
    assert open_large(sessions, 40)
    assert not open_large(sessions, 1), "it goes on with full fetches"
    assert not open_large(sessions, 101)
    assert (len(sessions), sessions.partition_count) == (2, 100)


def test_a_session_that_grows_beyond_what_is_left_ends() -> None:
    sessions = FetchSessionCache(1000, max_partitions=100)
    kept, grown = open_large(sessions, 60), open_large(sessions, 30)
    with pytest.raises(KafkaError, match="grew too large"):
        fetch(sessions, (grown, 1), many(11, "other"))
    assert (len(sessions), sessions.partition_count) == (1, 60)
    assert fetch(sessions, (kept, 1), forgotten=[("t", 0)]).partitions
    assert sessions.partition_count == 59


def test_sessions_of_connections_that_are_gone_make_room_at_once() -> None:
    sessions = FetchSessionCache(1000, max_partitions=100)
    gone, alive = object(), object()
    first, second = open_large(sessions, 50, 10, gone), open_large(sessions, 50, 5, alive)
    assert not open_large(sessions, 40, 20)
    sessions.disconnected(gone)
    assert fetch(sessions, (first, 1), now=30, owner=alive).session, "who comes back goes on"
    sessions.disconnected(alive)
    assert open_large(sessions, 100, 40)
    assert len(sessions) == 1
    with pytest.raises(KafkaError):
        fetch(sessions, (second, 1), now=50)


def test_a_partition_that_stands_twice_is_read_once(client: RawClient) -> None:
    create_topic(client)
    append(client, b"a")
    request = fetch_request({("t", 0): 0}, **NEW)
    request.topics = request.topics * 100
    (topic,) = client.call(request, BY_NAME).responses
    assert [values_in(data) for data in topic.partitions] == [[b"a"]]


def test_a_fetch_names_not_many_more_partitions_than_there_are(
    client: RawClient, connect: Connect, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    bad = connect(broker)
    bad.send(fetch_request({("none", index): 0 for index in range(SPARE_ELEMENTS)}), BY_NAME)
    bad.wait_closed()
    assert "elements too many" in caplog.text
    create_topic(client, "many", 10_000)
    answer = client.call(fetch_request({("many", index): 0 for index in range(10_000)}), BY_NAME)
    assert len(answer.responses[0].partitions) == 10_000


def test_the_sessions_of_a_closed_connection_are_told(broker: Broker, connect: Connect) -> None:
    client = connect(broker)
    create_topic(client)
    assert client.call(fetch_request({("t", 0): 0}, **NEW), BY_NAME).session_id
    client.close()
    eventually(
        lambda: broker.call(lambda s: all(one.owner is None for one in s.fetch_sessions._sessions.values())),
        "the session has no owner",
    )
