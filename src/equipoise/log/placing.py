"""Batches get their places in a log: offsets, leader epoch and, if the log says so, the time of the append."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.wire.records.batch import BatchHeader, crc_of, stamp, write_header

_LOG_APPEND_TIME = 0x08  # in a batch's attributes

Batches = Sequence[tuple[int, BatchHeader]]  # with their positions in the data


def place_batches(
    data: bytearray | memoryview, batches: Batches, offset: int, *, leader_epoch: int, log_append_time: int
) -> list[BatchHeader]:
    """Stamps the batches from an offset on, and returns their new headers. `log_append_time` is -1 where the
    producer's timestamps stand."""
    headers = []
    for position, header in batches:
        if log_append_time >= 0:
            header = _at_append_time(data, position, header, log_append_time)
        stamp(data, position, offset, leader_epoch)
        headers.append(BatchHeader._make((offset, header.batch_length, leader_epoch, *header[3:])))
        offset += header.last_offset_delta + 1
    return headers


def _at_append_time(data: bytearray | memoryview, position: int, header: BatchHeader, now: int) -> BatchHeader:
    """The timestamp lies under the CRC, unlike offset and leader epoch."""
    header = header._replace(attributes=header.attributes | _LOG_APPEND_TIME, max_timestamp=now)
    write_header(data, position, header)
    header = header._replace(crc=crc_of(data, position, header.size))
    write_header(data, position, header)
    return header


def pieces(data: bytearray | memoryview, batches: Batches) -> list[memoryview]:
    """The batches' bytes: one piece if they are adjacent."""
    view = memoryview(data)
    parts = [view[position : position + header.size] for position, header in batches]
    start, end = batches[0][0], batches[-1][0] + len(parts[-1])
    return parts if end - start > sum(map(len, parts)) else [view[start:end]]
