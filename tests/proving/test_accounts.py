"""The counting of the trials: what is lost, what is repeated, how long nothing came."""

from __future__ import annotations

from collections import Counter

from equipoise.proving.trials.accounts import Account, Read, longest_stall, numbers, settle, table
from equipoise.proving.trials.run import is_kept
from equipoise.proving.trials.spark import SINK


def test_what_nobody_read_is_lost_and_what_came_again_is_repeated() -> None:
    account = settle("equipoise", {0, 1, 2, 3}, Counter({0: 1, 1: 3, 2: 1}), 1.5)
    assert account == Account("equipoise", acknowledged=4, read=3, lost=1, repeated=2, stalled_s=1.5)
    assert not account.is_exact


def test_records_are_known_by_their_numbers_in_the_log() -> None:
    reads = [Read(0.0, 0, 0), Read(1.0, 1, 0), Read(2.0, 0, 0)]
    assert numbers(reads, {(0, 0): 10, (1, 0): 11}) == Counter({10: 2, 11: 1})


def test_a_stall_is_of_one_partition_whatever_the_others_do() -> None:
    reads = [Read(at / 10, 0, at) for at in range(100)] + [Read(7.0, 1, 1), Read(1.0, 1, 0)]
    assert longest_stall(reads) == 6.0
    assert longest_stall([]) == 0.0


def test_a_sink_may_repeat_and_others_of_ours_may_not() -> None:
    repeated = Account("equipoise", acknowledged=4, read=4, lost=0, repeated=1, stalled_s=0.0)
    assert not is_kept(repeated)
    assert is_kept(repeated._replace(reader=SINK))
    assert is_kept(repeated._replace(reader="java"))
    assert not is_kept(repeated._replace(reader=SINK, lost=1))


def test_the_table_is_markdown() -> None:
    account = Account("java", acknowledged=1000, read=999, lost=1, repeated=0, stalled_s=2.04)
    assert table([account]).splitlines()[2] == "| java | 1,000 | 999 | 1 | 0 | 2.0 s |"
