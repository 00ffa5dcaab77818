"""Every message, every record of `__consumer_offsets` and every version of them comes back from its bytes as it was."""

from __future__ import annotations

from inspect import getmembers, isclass
from typing import Any

from hypothesis import HealthCheck, given, settings

from equipoise.wire import offsets_records
from equipoise.wire.schema import Message
from tests.effort import examples
from tests.property.strategies import MESSAGES, each_version, messages, of_messages

RECORDS = [cls for _, cls in getmembers(offsets_records, isclass) if issubclass(cls, Message) and cls is not Message]
EXAMPLES_PER_VERSION = examples(12)


@of_messages(each_version(MESSAGES + RECORDS))
def test_decoding_what_was_encoded_gives_the_same_message(cls: type[Message], version: int) -> None:
    @settings(
        max_examples=EXAMPLES_PER_VERSION,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(messages(cls, version))
    def check(message: Any) -> None:
        data = message.encode(version)
        assert cls.decode(data, version) == message
        assert cls.decode(b"before" + data, version, len(b"before")) == message
        assert cls.decode(bytearray(data), version) == message

    check()
