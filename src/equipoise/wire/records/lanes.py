"""Reads varints by the thousand: numpy over positions in one byte array, without a Python object per record.

Positions are int64. Reads are clipped to the array. A wild position therefore gives a wrong number and never a crash:
callers compare ends, and refuse.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.wire.records.batch import corrupt
from equipoise.wire.records.read import long_varint

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

# Fewer lanes than this are walked one after another: a numpy step costs as much as 20 steps of Python.
_FEW_LANES = 20
_WINDOW = 64  # fields that are guessed ahead at first: behind them offsets take a byte more
_WINDOW_GROWTH = 16  # times the last run: what is guessed in vain stays in proportion
_LEAP_FACTOR = 4  # times as many fields as there are lanes: for fewer, lanes in lockstep are as fast
_SHORT_RUN = 16  # fields of one size in a row: after fewer, guessing does not pay


def varints(data: Bytes, pos: Ints) -> tuple[Ints, Ints]:
    """The zigzag varint at each position, and the position after each."""
    first, end = data.take(pos, mode="clip"), pos + 1
    if first.max() < 0x80:
        return _unzigzag(first.astype(np.int16)), end
    more = first >> 7
    second = data.take(end, mode="clip") * more
    values, ends = _unzigzag(first & 0x7F | second.astype(np.int16) << 7), end + more
    if second.max() > 0x7F:
        rows = np.flatnonzero(second > 0x7F)
        values[rows], ends[rows] = _long_varints(data, pos[rows])
    return values, ends


def _unzigzag(numbers: NDArray[np.int16]) -> Ints:
    return (numbers >> 1 ^ -(numbers & 1)).astype(np.int64)


def _long_varints(data: Bytes, pos: Ints) -> tuple[Ints, Ints]:
    """The same for up to ten bytes: each turn takes the next byte of the varints that have one."""
    zigzag = np.zeros(len(pos), np.uint64)
    ends = pos + 1
    rows = np.arange(len(pos))
    for turn in range(10):
        byte = data.take(pos[rows] + turn, mode="clip")
        if turn == 9 and (byte > 1).any():
            raise corrupt("a varint of a record is longer than 64 bits")
        zigzag[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * turn)
        rows = rows[byte > 0x7F]
        if not len(rows):
            break
        ends[rows] += 1
    values = (zigzag >> np.uint64(1)).view(np.int64)
    return values ^ -(zigzag & np.uint64(1)).view(np.int64), ends


def lengths(data: Bytes, pos: Ints) -> tuple[Ints, Ints]:
    """Varints that are lengths: -1 means null, anything else must fit into `data`."""
    values, ends = varints(data, pos)
    lowest, highest = values.min(), values.max()
    if lowest < -1 or highest > len(data):
        raise corrupt(f"a field of a record has length {lowest if lowest < -1 else highest}")
    return values, ends


def field_starts(data: Bytes, start: Ints, count: Ints) -> Ints:
    """The start of each field, in chains of fields with a length before each.

    Chain i begins at `start[i]` and has `count[i]` > 0 fields; the answer holds chain after chain. The records of a
    batch are such a chain, and so are the keys and values of a record's headers. Runs of fields of equal size are
    skipped at once. The rest advances in lockstep, a lane for each chain. When few lanes are left, the longest go on
    alone. A byte must follow the last field: `data` is read in pairs.
    """
    try:
        return _chase(data, start, count)
    except IndexError:
        raise corrupt(f"the lengths of records run past the {len(data)} bytes that are there") from None


def _pairs(data: Bytes) -> NDArray[np.uint16]:
    """Each byte with the next byte."""
    return np.ndarray((len(data) - 1,), "<u2", buffer=data, strides=(1,))


def _chase(data: Bytes, start: Ints, count: Ints) -> Ints:
    out = np.empty(int(count.sum()), np.int64)
    pairs = _pairs(data)
    begin, first, left = start.copy(), np.cumsum(count) - count, count.copy()
    for lane in np.flatnonzero(count >= max(_WINDOW, _LEAP_FACTOR * len(count))).tolist():
        done, begin[lane] = _leap(pairs, int(start[lane]), out[first[lane] : first[lane] + count[lane]])
        first[lane] += done
        left[lane] -= done
    order = np.argsort(-left, kind="stable")[: np.count_nonzero(left)]
    begin, first, left = begin[order], first[order], left[order]
    pos, slot = begin.copy(), first.copy()
    alone = left > _lockstep(pairs, pos, slot, left, out=out)
    if not alone.all():
        # A lane that met a length of three bytes or more stood still from there: once more from its beginning.
        stuck = _STEPS.take(pairs[out[slot - 1]]) == 0
        pos[stuck], slot[stuck] = begin[stuck], first[stuck]
        alone |= stuck
    view, last = data.data, first + left
    for lane in np.flatnonzero(alone).tolist():
        out[slot[lane] : last[lane]] = _walk(view, int(pos[lane]), int(last[lane] - slot[lane]))
    return out


def _leap(pairs: NDArray[np.uint16], pos: int, out: Ints) -> tuple[int, int]:
    """Fields of one size stand at even distances: guesses such runs, and checks them all at once.

    Returns the number of fields found, and where the next begins.
    """
    done, window = 0, _WINDOW
    while done < len(out):
        step = _STEP_ROWS[pairs[pos] >> 8][pairs[pos] & 0xFF]
        if not step:
            break
        guess = pairs[pos : pos + step * min(window, len(out) - done) : step]
        is_other = guess != guess[0]
        run = int(is_other.argmax()) or len(guess)
        out[done : done + run] = np.arange(pos, pos + step * run, step)
        done, pos, window = done + run, pos + step * run, _WINDOW_GROWTH * run
        if run < _SHORT_RUN:
            break
    return done, pos


def _lockstep(pairs: NDArray[np.uint16], pos: Ints, slot: Ints, left: Ints, *, out: Ints) -> int:
    """Advances `pos` and `slot` while there are many lanes. Returns the largest number of fields that a lane has
    done."""
    done = 0
    while (lanes := int(np.count_nonzero(left > done))) >= _FEW_LANES:
        pos, slot = pos[:lanes], slot[:lanes]
        until = int(left[lanes - 1])
        for _ in range(done, until):
            out[slot] = pos
            slot += 1
            pos += _STEPS.take(pairs[pos])
        done = until
    return done


def _walk(view: memoryview, pos: int, count: int) -> list[int]:
    """Reads one lane's fields in plain Python."""
    rows = _STEP_ROWS
    start = pos
    rest = [pos := pos + (rows[view[pos + 1]][view[pos]] or _long_step(view, pos)) for _ in range(count - 1)]
    return [start, *rest]


def _long_step(view: memoryview, pos: int) -> int:
    length, end = long_varint(view, pos)
    if length < -1:
        raise corrupt(f"a field of a record has length {length}")
    return end - pos + max(length, 0)


def _make_steps() -> Ints:
    """Maps each pair of bytes at a field's start to the distance to the next field; 0 if a pair cannot tell."""
    first, second = np.arange(256), np.arange(256)[:, np.newaxis]
    two = first >> 7
    zigzag = first & 0x7F | (second << 7) * two
    steps: Ints = 1 + two + (zigzag >> 1)
    longer, negative = two & second >> 7, (zigzag & 1) * (zigzag != 1)  # 1 is -1: null, without bytes
    steps[(longer | negative) > 0] = 0
    return steps.ravel()


_STEPS = _make_steps()
_STEP_ROWS = _STEPS.reshape(256, 256).tolist()
