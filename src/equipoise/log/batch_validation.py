"""Checks a producer's batch before the append: the keys of its records, and its compression
(LogValidator.validateMessagesAndAssignOffsets).

Both need the records' bytes, and a few kilobytes can expand to many megabytes: any thread may do this work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from equipoise.wire.errors import ErrorCode, KafkaError
from equipoise.wire.records.batch import HEADER_SIZE, BatchHeader, Buffer, Codec, read_header
from equipoise.wire.records.build import frame_batch
from equipoise.wire.records.codecs import compress
from equipoise.wire.records.scan import expansion_limit, record_limit, scan, unpack

_CODEC_BITS = 0x07
_PAUSE_RECORDS = 1024
MAX_RECORD_ERRORS = 10_000  # named one by one, as many as librdkafka puts into a batch

Pause = Callable[[], object]


class RecordValidationError(KafkaError):
    """Some records of a batch are invalid: `indexes` says which (KIP-467). None of the batch is appended."""

    message_of_each = "a record of a topic with cleanup.policy=compact needs a key"

    def __init__(self, indexes: list[int], message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)
        self.indexes = indexes


class BatchValidation(NamedTuple):
    """The work to do on a batch."""

    check_keys: bool
    codec: Codec | None = None
    """To recompress it with; None: it stays as it came."""
    level: int | None = None
    max_bytes: int = 2**31 - 1  # max.message.bytes: of what is made, too

    def run(self, batch: Buffer, header: BatchHeader, pause: Pause) -> tuple[bytearray | None, BatchHeader]:
        """Returns the new batch, None if it stays as it is, and its header."""
        if self.check_keys and header.record_count > record_limit(header.size):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"{header.record_count} records cannot be in {header.size} bytes"
            )
        data = unpack(batch, header, limit=expansion_limit(header.size))
        if self.check_keys:
            _check_keys(data, header, pause)
        if self.codec is None:
            return None, header
        # The records' own bytes hold nothing of the codec: they are not decoded. Offsets, timestamps and what an
        # idempotent producer put into the header stay.
        header = header._replace(attributes=header.attributes & ~_CODEC_BITS | self.codec)
        if self.codec is not Codec.NONE:
            data = compress(self.codec, data, self.level)
        self._check_size(HEADER_SIZE + len(data))
        made = frame_batch(header, data)
        return made, read_header(made)

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {size} bytes once it is recompressed; max.message.bytes is {self.max_bytes}",
            )


def check_keys(batch: Buffer, header: BatchHeader) -> None:
    """Raises RecordValidationError for a batch that compaction could not handle."""
    BatchValidation(check_keys=True).run(batch, header, lambda: None)


def _check_keys(data: bytes | memoryview, header: BatchHeader, pause: Pause) -> None:
    missing: list[int] = []
    count = 0
    for index, record in enumerate(scan(data, header)):
        if record.key is None:
            count += 1
            if count <= MAX_RECORD_ERRORS:
                missing.append(index)
        if index % _PAUSE_RECORDS == _PAUSE_RECORDS - 1:
            pause()
    if missing:
        raise RecordValidationError(
            missing,
            f"{count} of {header.record_count} records have no key, the first at index {missing[0]}; "
            "a topic with cleanup.policy=compact needs one in each",
        )
