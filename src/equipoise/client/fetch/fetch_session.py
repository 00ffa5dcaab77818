"""The client's half of an incremental fetch session (KIP-227): a fetch sends only what has changed since the last."""

from __future__ import annotations

from equipoise.client.fetch.fetch_request import Fetches, FetchLimits, PartitionFetch, fetch_request
from equipoise.member.partitions import TopicPartition
from equipoise.wire.apis.k01_fetch import FetchRequest, ForgottenTopic

_FULL = 0  # the epoch of a fetch that names everything and would like a session
_MAX_EPOCH = 2**31 - 1


class FetchSessionHandler:
    """As the broker has it, if all goes well. `reset` when it does not: the next fetch names everything."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = _FULL
        self._known: dict[TopicPartition, PartitionFetch] = {}

    def reset(self) -> None:
        """The next fetch names everything, and asks for a new session."""
        self.session_id, self.epoch = 0, _FULL
        self._known = {}

    def request(self, limits: FetchLimits, fetches: Fetches) -> FetchRequest:
        """Names what the broker does not know yet, and what it is to forget (FetchSessionHandler.Builder.build)."""
        known = self._known
        changed = {key: fetch for key, fetch in fetches.items() if known.get(key) != fetch}
        gone = {key: fetch for key, fetch in known.items() if key not in fetches}
        # A topic made anew has another id: the broker is to forget the old one, too.
        replaced = {key: known[key] for key in changed if key in known and known[key].topic_id != changed[key].topic_id}
        request = fetch_request(limits, changed)
        request.session_id, request.session_epoch = self.session_id, self.epoch
        request.forgotten_topics_data = _forgotten(gone | replaced)
        self._known = dict(fetches)
        return request

    def answered(self, session_id: int) -> None:
        """The id that the broker has given the session; 0: it keeps none."""
        if not session_id:  # the broker has no room for a session
            self.reset()
            return
        self.session_id = session_id
        self.epoch = self.epoch + 1 if self.epoch < _MAX_EPOCH else 1


def _forgotten(gone: Fetches) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, number), fetch in gone.items():
        key = name, fetch.topic_id
        topic = topics.setdefault(key, ForgottenTopic(topic=name, topic_id=fetch.topic_id, partitions=[]))
        topic.partitions.append(number)
    return list(topics.values())
