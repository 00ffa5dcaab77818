"""Requests in which a name may stand once only, as on Kafka (ControllerApis.createTopics)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from equipoise.wire.errors import ErrorCode, KafkaError


class RepeatedNames:
    """How often each name stands in a request. `Hashable`: a name, or its type and name."""

    def __init__(self, names: Iterable[Hashable]) -> None:
        self._times = Counter(names)

    def check(self, key: Hashable, name: str) -> None:
        """Raises INVALID_REQUEST for a name that stands more than once."""
        if self._times[key] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} stands {self._times[key]} times here")
