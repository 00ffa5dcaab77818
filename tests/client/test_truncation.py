"""Logs that lose their end, and topics made anew: what was read is not silently skipped over (KIP-320, KIP-951)."""

from __future__ import annotations

import pytest

from equipoise.client.fetch.subscription_state import LogTruncationError, TopicReplacedError
from equipoise.member.commits import OffsetAndMetadata
from equipoise.wire.apis.k01_fetch import DivergingEpoch, FetchableTopicResponse, FetchRequest, FetchResponse
from equipoise.wire.apis.k01_fetch import PartitionData as Data
from tests.client.fakes import RECORDS, TOPIC, TOPIC_ID, FakeCluster
from tests.client.reader import Reader, offsets_of
from tests.client.test_fetcher_moves import play

KEPT = 4


def elect_uncleanly(fake: FakeCluster, *, new: int = 3, epoch: int = 1) -> None:
    """The new leader has `KEPT` of the records, and writes `new` of its own."""
    fake.logs[0] = [0] * KEPT + [epoch] * new
    fake.leaders[0] = (2, epoch)


@pytest.mark.parametrize("reset", ["latest", "earliest"])
@pytest.mark.parametrize("new", [3, 2 * RECORDS])
def test_reading_goes_on_where_the_logs_part(reset: str, new: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whether the new leader's log is shorter than the position or longer by now."""

    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0])
        assert len(await mine.take(RECORDS)) == RECORDS
        elect_uncleanly(fake, new=new)
        taken = await mine.take(new)
        assert offsets_of(taken, partition) == list(range(KEPT, KEPT + new))
        assert {one.leader_epoch for one in taken} == {1}
        assert "t-0 has lost offsets 4 to 9, which were read already" in caplog.text

    play(main, FakeCluster(), auto_offset_reset=reset)


def test_without_a_policy_the_application_decides() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0])
        await mine.take(RECORDS)
        elect_uncleanly(fake)
        for _ in range(2):  # it is told until it seeks
            with pytest.raises(
                LogTruncationError, match=r"t-0 has lost records before offset 10, from offset 4 on"
            ) as told:
                await mine.take(1)
        assert (told.value.partition, told.value.offset) == (partition, RECORDS)
        divergent = told.value.divergent_offset
        assert divergent == OffsetAndMetadata(KEPT, "", 0)
        mine.subscriptions.seek(partition, divergent.offset, divergent.leader_epoch)
        assert offsets_of(await mine.take(3), partition) == [4, 5, 6]

    play(main, FakeCluster(), auto_offset_reset="none")


def test_what_is_queued_of_a_lost_end_is_dropped_and_nothing_is_read_twice() -> None:
    """The application has read less than the new leader kept."""

    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0])
        taken = await mine.take(2)
        tracked = mine.subscriptions.assignment[partition]
        await mine.until(lambda: tracked.fetch_offset == RECORDS)
        elect_uncleanly(fake)
        await mine.until(lambda: tracked.validated_epoch == 1 and tracked.fetch_offset == KEPT + 3)
        taken += await mine.take(KEPT + 3 - 2)
        assert [(one.offset, one.leader_epoch) for one in taken] == [
            *((at, 0) for at in range(4)),
            (4, 1),
            (5, 1),
            (6, 1),
        ]

    play(main, FakeCluster(), auto_offset_reset="none")


def test_a_clean_election_is_checked_once_and_costs_nothing() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0])
        await mine.take(RECORDS)
        fake.leaders[0] = (2, 1)
        fake.logs[0] += [1] * 5
        assert offsets_of(await mine.take(5), partition) == list(range(RECORDS, RECORDS + 5))
        ((node, request),) = fake.epoch_requests
        (asked,) = request.topics[0].partitions
        assert (node, asked.current_leader_epoch, asked.leader_epoch) == (2, 1, 0)
        last = fake.fetches[-1][2].topics[0].partitions[0]
        assert (last.current_leader_epoch, last.last_fetched_epoch) == (1, 1)

    play(main, FakeCluster())


def test_a_committed_epoch_is_checked_before_anything_is_fetched() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        elect_uncleanly(fake, new=20)
        (partition,) = mine.assign(TOPIC, [0], None)
        mine.subscriptions.seek(partition, RECORDS, 0)  # as a commit says that is from before the election
        assert offsets_of(await mine.take(20), partition) == list(range(KEPT, KEPT + 20))
        assert fake.fetches[0][2].topics[0].partitions[0].fetch_offset == KEPT

    play(main, FakeCluster())


def test_metadata_older_than_what_was_read_is_not_believed_at_once() -> None:
    """A broker that has not heard of the election yet would deny the epoch that was committed."""

    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.logs[0] = [0] * 5 + [1] * 5
        (partition,) = mine.assign(TOPIC, [0], None)
        mine.subscriptions.seek(partition, 7, 1)
        await mine.until(lambda: fake.metadata_requests > 3)
        assert not fake.fetches
        assert not fake.epoch_requests
        fake.leaders[0] = (2, 1)
        assert offsets_of(await mine.take(3), partition) == [7, 8, 9]

    play(main, FakeCluster(), auto_offset_reset="none")


def test_an_epoch_that_no_leader_ever_knew_is_left_to_the_policy(caplog: pytest.LogCaptureFixture) -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0], None)
        mine.subscriptions.seek(partition, 7, 99)
        assert offsets_of(await mine.take(RECORDS), partition) == list(range(RECORDS))
        assert "its leader cannot tell from where on" in caplog.text

    play(main, FakeCluster(), auto_offset_reset="earliest")


@pytest.mark.parametrize("versions", [None, (2, 2)])
def test_brokers_that_cannot_be_asked_are_believed(versions: tuple[int, int] | None) -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0])
        await mine.take(RECORDS)
        fake.leaders[0] = (2, 1)
        fake.logs[0] += [1] * 5
        assert offsets_of(await mine.take(5), partition) == list(range(RECORDS, RECORDS + 5))
        assert not fake.epoch_requests

    play(main, FakeCluster(epoch_versions=versions, fetch_versions=(4, 11)))


def test_a_fetch_that_finds_the_logs_parted_is_believed() -> None:
    """Without a new epoch of the leader, which should not be: the answer to Fetch says it too."""

    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0])
        await mine.take(RECORDS)
        fake.logs[0] = [0] * KEPT
        await mine.until(lambda: mine.subscriptions.position(partition) == KEPT)
        fake.logs[0] += [0] * 3
        assert offsets_of(await mine.take(3), partition) == [4, 5, 6]

    play(main, FakeCluster())


def test_a_follower_that_is_behind_is_not_taken_for_a_truncated_log() -> None:
    def behind(node_id: int, request: FetchRequest) -> FetchResponse | None:
        if node_id != 2:
            return None
        end = DivergingEpoch(epoch=0, end_offset=1)
        data = Data(partition_index=0, error_code=0, high_watermark=1, diverging_epoch=end, records=b"")
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])

    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.preferred = 2
        (partition,) = mine.assign(TOPIC, [0])
        taken = await mine.take(3)
        fake.answers = [behind] * 4
        fake.preferred = -1
        taken += await mine.take(RECORDS - 3)
        assert offsets_of(taken, partition) == list(range(RECORDS))

    play(main, FakeCluster(), client_rack="here", auto_offset_reset="none")


def test_a_hint_names_the_new_leader_without_new_metadata() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        fake.gives_hints = True
        (partition,) = mine.assign(TOPIC, [0])
        await mine.take(RECORDS)
        asked = fake.metadata_requests
        fake.leaders[0] = (2, 1)
        fake.logs[0] += [1] * 5
        assert offsets_of(await mine.take(5), partition) == list(range(RECORDS, RECORDS + 5))
        assert fake.metadata_requests == asked

    play(main, FakeCluster())


@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_a_topic_made_anew_is_not_read_at_the_old_position(reset: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0])
        await mine.take(5)
        fake.topic_id = b"N" * 16
        fake.logs[0] = [0] * 20
        mine.cluster.request_refresh()
        await mine.until(lambda: mine.cluster.topics[TOPIC].topic_id == fake.topic_id)
        if reset == "none":
            with pytest.raises(TopicReplacedError, match="topic 't' was deleted and created anew"):
                await mine.take(1)
            mine.subscriptions.seek(partition, 0)
        else:
            assert "its topic was deleted and created anew" in caplog.text
        assert offsets_of(await mine.take(20), partition) == list(range(20))

    play(main, FakeCluster(), auto_offset_reset=reset)


def test_a_leader_that_does_not_answer_is_asked_again() -> None:
    async def main(fake: FakeCluster, mine: Reader) -> None:
        (partition,) = mine.assign(TOPIC, [0])
        await mine.take(RECORDS)
        fake.leaders[0] = (2, 1)
        fake.logs[0] += [1] * 5
        fake.lost_answers = 3
        assert offsets_of(await mine.take(5), partition) == list(range(RECORDS, RECORDS + 5))
        assert len(fake.epoch_requests) == 4

    play(main, FakeCluster())
