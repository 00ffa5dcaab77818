"""Owners across their restarts, and their colours.

A member id lives until the next restart. A person follows the instance id, else the client id where it tells members
apart. The colour follows the identity, so a restarted pod keeps it, and every viewer sees the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from equipoise.console import words
from equipoise.coordinator.reasons import Who
from equipoise.views.model import GroupView, RebalanceView
from equipoise.wire.text import LONGEST_NAME, printable

SLOTS = 24  # colours of static/palette.js
_UUID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class Owner(NamedTuple):
    """One identity: its name on the page, its host and its colour."""

    identity: str
    name: str
    host: str
    slot: int


class Owners:
    """Identities of members, in the order in which they were first seen. They are only ever added."""

    def __init__(self) -> None:
        self.all: list[Owner] = []
        self._by_identity: dict[str, int] = {}
        self._by_member: dict[str, int] = {}
        self._who: dict[str, Who] = {}
        self._taken: set[int] = set()

    def learn(self, view: GroupView) -> None:
        """Adds the members of a view, those of its past first."""
        for who in _mentioned(view):
            self._who.setdefault(who.member_id, who)
        for one in view.members:
            self._who[one.member_id] = one.who
        shared = _shared_clients(view, self._who)
        for member_id in [*_past(view.rebalances), *(one.member_id for one in view.members)]:
            if member_id not in self._by_member:
                self._by_member[member_id] = self._place(member_id, shared)

    def index(self, member_id: str) -> int:
        """The place in `all`. KeyError: no view has named the member."""
        return self._by_member[member_id]

    def of(self, member_id: str) -> Owner:
        """The owner behind a member id, also of one that no view has named."""
        if member_id not in self._by_member:
            self._by_member[member_id] = self._place(member_id, set())
        return self.all[self._by_member[member_id]]

    def _place(self, member_id: str, shared: set[str]) -> int:
        who = self._who.get(member_id) or Who(member_id, _client_of(member_id), "", None)
        identity, name = _identity(who, shared)
        if identity not in self._by_identity:
            self._by_identity[identity] = len(self.all)
            self.all.append(
                Owner(identity, name, printable(who.client_host.lstrip("/"), LONGEST_NAME), self._slot(identity))
            )
        return self._by_identity[identity]

    def _slot(self, identity: str) -> int:
        """Past taken slots; when all are taken, colours repeat."""
        slot = crc32(identity.encode(errors="replace")) % SLOTS
        if len(self._taken) < SLOTS:
            while slot in self._taken:
                slot = (slot + 1) % SLOTS
            self._taken.add(slot)
        return slot


def _identity(who: Who, shared: set[str]) -> tuple[str, str]:
    if who.group_instance_id:
        return who.group_instance_id, printable(who.group_instance_id, LONGEST_NAME)
    if who.client_id and who.client_id not in shared:
        return who.client_id, printable(who.client_id, LONGEST_NAME)
    return who.member_id, words.member(who.member_id) or "a client without a name"


def _shared_clients(view: GroupView, known: dict[str, Who]) -> set[str]:
    """Client ids that two members have at one time. They tell nobody apart."""
    rounds = [[one.member_id for one in view.members], *(_owners_of(one) for one in view.rebalances)]
    shared: set[str] = set()
    for members in rounds:
        clients = Counter(
            known[one].client_id if one in known else _client_of(one)
            for one in set(members)
            if not _is_static(one, known)
        )
        shared.update(name for name, count in clients.items() if count > 1)
    return shared


def _is_static(member_id: str, known: dict[str, Who]) -> bool:
    who = known.get(member_id)
    return who is not None and who.group_instance_id is not None


def _owners_of(view: RebalanceView) -> set[str]:
    return {one.owner for one in view.moved} | {member_id for member_id, _ in view.arrivals}


def _past(rebalances: Iterable[RebalanceView]) -> Iterable[str]:
    for view in rebalances:
        for one in view.moved:
            if one.before is not None:
                yield one.before
            yield one.owner


def _mentioned(view: GroupView) -> Iterable[Who]:
    for one in view.rebalances:
        for who in (one.cause.who, one.waited_for):
            if who is not None and who.member_id:
                yield who


def _client_of(member_id: str) -> str:
    """A coordinator makes a member id of the client id and a UUID."""
    return _UUID.sub("", member_id)
