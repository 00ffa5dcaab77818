"""Finds the topics of regular expressions, in slices between turns of the loop. Rule A14.13.

A client has chosen the patterns. However costly they are, other clients wait for one slice at most.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from equipoise.coordinator.consumer.regex import DFA, InvalidRegularExpression, parse
from equipoise.security.acls import AclOperation, Resource, ResourceType
from equipoise.wire.text import printable

if TYPE_CHECKING:
    from equipoise.broker.groups.shards import GroupShard
    from equipoise.broker.server import Server
    from equipoise.coordinator.step import Resolve

log = logging.getLogger(__name__)

Found = dict[str, set[str]]


class TopicRegexResolver:
    """Answers what shards ask (Kafka: TopicRegexResolver)."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def resolve(self, shard: GroupShard, asked: Resolve) -> None:
        """Begins; the shard gets the topics when they are found. A regular expression that cannot be read is left out:
        it was valid when it was stored, by this broker or by another."""
        found: Found = {}
        self._go_on(shard, asked, found, self._steps(asked, list(shard.core.image.topics), found))

    def _go_on(self, shard: GroupShard, asked: Resolve, found: Found, steps: Iterator[None]) -> None:
        """One slice."""
        ends = self._server.turns.piece_ends()
        try:
            for _ in steps:
                if monotonic() >= ends:
                    self._server.turns.add(partial(self._go_on, shard, asked, found, steps))
                    return
        except Exception:
            log.exception("group %s: its regular expressions could not be resolved", printable(asked.group_id))
            found = {}
        shard.run(shard.core.regexes_resolved(asked, found, self._server.clock.now()))

    def _steps(self, asked: Resolve, names: list[str], found: Found) -> Iterator[None]:
        for regex in asked.regexes:
            try:
                program = parse(regex)
            except InvalidRegularExpression as error:
                log.error("group %s: a stored regular expression is passed over: %s", printable(asked.group_id), error)
                continue
            yield  # each half of the compilation may take a whole slice
            dfa, matched, place = DFA(program), set[str](), 0
            yield
            for verdict in dfa.verdicts(names):
                if verdict:
                    matched.add(names[place])
                place += verdict is not None
                yield
            found[regex] = matched
        yield from self._leave_out_denied(asked, found)

    def _leave_out_denied(self, asked: Resolve, found: Found) -> Iterator[None]:
        """What the member that has asked may not describe is left out, for the whole group. Rule A14.4."""
        if self._server.allows_all:
            return
        call = asked.caller.token
        for name in set[str]().union(*found.values()):
            resource = Resource(ResourceType.TOPIC, name)
            if not self._server.is_authorized(call, AclOperation.DESCRIBE, resource, quiet=True):
                for matched in found.values():
                    matched.discard(name)
            yield
