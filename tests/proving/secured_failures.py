"""Ways not to be let in, and what a client says of each."""

from __future__ import annotations

import dataclasses
import re
import uuid
from typing import NamedTuple

from equipoise.client import Admin
from proving.members.fleet import Fleet, Members
from proving.secured_broker import OPEN, SecuredBroker

CLOSED = "closed"
OWN_ASSIGNOR = {"kafkajs": "roundrobin"}
_FOLLOWS = "_ALL_BROKERS_DOWN"  # librdkafka says it beside the reason
_TRANSPORT = re.compile(r"_TRANSPORT|% ERROR: Local: Broker transport failure")


class Failure(NamedTuple):
    way: str
    password: str = ""
    certificate: str = ""  # a file of the broker's data directory
    topic: str = OPEN
    group: str = OPEN


FAILURES = {
    "wrong password of PLAIN": Failure("PLAIN", password="a-wrong-one"),
    "wrong password of SCRAM": Failure("SCRAM-SHA-512", password="a-wrong-one"),
    "expired certificate": Failure("EXPIRED"),
    "wrong host name": Failure("ELSEWHERE"),
    "expired certificate of the client": Failure("MUTUAL", certificate="expired-client.pem"),
    "topic without an ACL": Failure("SCRAM-SHA-512", topic=CLOSED),
    "group without an ACL": Failure("SCRAM-SHA-512", group=CLOSED),
}


def make_topics(broker: SecuredBroker) -> None:
    broker.allow_open()
    with Admin(broker.bootstrap_servers) as admin:
        for topic in (OPEN, CLOSED):
            admin.create_topic(topic, 1)


def fail(broker: SecuredBroker, fleet: Fleet, client: str, name: str) -> str:
    """What the client says of it: the error with which it ends, or the first of which its application hears."""
    failure = FAILURES[name]
    security = broker.security(failure.way)
    if failure.password:
        security = dataclasses.replace(security, password=failure.password)
    if failure.certificate:
        security = dataclasses.replace(security, certificate=str(broker.data / failure.certificate))
    group = f"{failure.group}-{uuid.uuid4()}"
    assignor = OWN_ASSIGNOR.get(client, "range")
    members = Members.of(fleet, failure.topic, group=group, assignor=assignor, security=security)
    members.join("one", client, may_fail=True)
    members.wait_until("it fails", lambda: bool(_reasons(members)))
    if not members.told("one", "error"):
        members.close("one")
    return _reasons(members)[0]


def _reasons(members: Members) -> list[str]:
    told = [event.error for event in members.told("one", "trouble", "error")]
    return [error for error in told if not error.startswith(_FOLLOWS) and not _is_of_the_network(error)]


def _is_of_the_network(error: str) -> bool:
    """librdkafka tells of a connection that ended, for instance because a busy machine was late, and tries again. A
    broker that refuses the client's certificate says so by an alert of TLS."""
    return bool(_TRANSPORT.match(error)) and "alert" not in error


def kind_of(error: str) -> str:
    """The error's class or name, without its words. kcat has a name of some words for it."""
    found = re.match(r"% ERROR: Local: [\w ]+|[\w.]+", error)
    assert found is not None, error
    return found[0]
