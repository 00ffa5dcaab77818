"""The process in which members of groups run, a thread for each: told what to do by lines of JSON on stdin, telling
what happens by lines of JSON on stdout. It ends when its input does."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from proving.members.security import Security


class Place(Protocol):
    @property
    def topic(self) -> Any: ...

    @property
    def partition(self) -> Any: ...


class Member:
    """One member: what it is told to be, and its voice. Times are those of the machine's monotonic clock."""

    _out = threading.Lock()

    def __init__(self, bootstrap_servers: str, told: dict[str, Any]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.security = Security(**told["security"]) if told["security"] else None
        self.name: str = told["member"]
        self.group: str = told["group"]
        self.topics: list[str] = told["topics"]
        self.pattern: str | None = told["pattern"]
        self.assignors: list[str] = told["assignor"].split(",")
        self.instance_id: str | None = told["instance_id"]
        self.session_ms: int | None = told["session_ms"]
        self.heartbeat_ms: int | None = told["heartbeat_ms"]
        self.max_poll_ms: int | None = told["max_poll_ms"]
        self.metadata_age_ms: int | None = told["metadata_age_ms"]
        self.fetch_wait_ms: int | None = told["fetch_wait_ms"]
        self.commits_itself: bool = told["commit"] == "auto"
        self.commit_ms: int | None = told["commit_ms"]
        self.poll_ms: int = told["poll_ms"]
        self.place: tuple[str, int] = told.get("place", ("", -1))
        self.offset: int = told.get("offset", -1)
        self.places: list[tuple[str, int]] = told.get("places", [])
        self.count: int = told.get("count", 0)
        self.closing = threading.Event()
        self.may_assign = threading.Semaphore(0)
        self._pausing = threading.Event()
        self._may_go_on = threading.Event()

    def settings(self, client_id: str | None) -> dict[str, Any]:
        """By Kafka's names, without those left to the client."""
        return given(self._protocol() | self._common(client_id))

    def _protocol(self) -> dict[str, Any]:
        """With group.protocol=consumer the broker sets the times, and clients refuse to be told them."""
        if self.speaks_consumer:
            return {"group.protocol": "consumer"}
        return {
            "session.timeout.ms": self.session_ms,
            "heartbeat.interval.ms": self.heartbeat_ms,
        }

    @property
    def speaks_consumer(self) -> bool:
        return self.assignors == ["consumer"]

    def _common(self, client_id: str | None) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": client_id,
            "group.id": self.group,
            "group.instance.id": self.instance_id,
            "max.poll.interval.ms": self.max_poll_ms,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": self.commits_itself,
            "auto.commit.interval.ms": self.commit_ms,
            "metadata.max.age.ms": self.metadata_age_ms,
            "fetch.max.wait.ms": self.fetch_wait_ms,
        }

    def say(self, kind: str, **more: Any) -> None:
        with self._out:
            line = json.dumps({"at": time.monotonic(), "member": self.name, "kind": kind, **more})
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def say_places(self, kind: str, places: Iterable[Place]) -> None:
        self.say(kind, places=sorted((place.topic, place.partition) for place in places))

    def say_records(self, rows: Iterable[tuple[str, int, int]]) -> None:
        """Having been told to pause, the member does so now: it has records, and has not yet committed them."""
        self.say("records", rows=list(rows))
        if self._pausing.is_set():
            self._pausing.clear()
            self.say("paused")
            self._may_go_on.wait()
            self._may_go_on.clear()

    def obey(self, told: dict[str, Any]) -> None:
        match told["do"]:
            case "assign":
                self.may_assign.release(told["times"])
            case "pause":
                self._pausing.set()
                self.say("pausing")
            case "resume":
                self._may_go_on.set()
            case "close":
                self.closing.set()


Life = Callable[[Member], None]


def serve(join: Life, commit_alone: Life, produce: Life) -> None:
    """`join` is a member's life, until `closing` is set. `commit_alone` commits `offset` of `place` for the group, by a
    consumer that is no member. `produce` writes `count` records to each of `places`, by the client's producer."""
    lives = {"join": join, "commit alone": commit_alone, "produce": produce}
    members: dict[str, Member] = {}
    for line in sys.stdin:
        told = json.loads(line)
        if told["do"] in lives:
            member = members[told["member"]] = Member(sys.argv[1], told)
            threading.Thread(target=_live, args=(lives[told["do"]], member), daemon=True).start()
        else:
            members[told["member"]].obey(told)
    os._exit(0)  # whoever is still a member is so no more


def _live(life: Life, member: Member) -> None:
    try:
        life(member)
    except Exception as error:  # noqa: BLE001  who watches is told, and fails
        member.say("error", error=repr(error))
    else:
        member.say("closed")


def given(settings: dict[str, Any]) -> dict[str, Any]:
    """Without those left to the client."""
    return {name: value for name, value in settings.items() if value is not None}


def keywords(settings: dict[str, Any]) -> dict[str, Any]:
    """Kafka's names as arguments of Python."""
    return {name.replace(".", "_"): value for name, value in settings.items()}
