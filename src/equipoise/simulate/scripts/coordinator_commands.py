"""What a script about a coordinator can say. Its clients do nothing by themselves. One function per command, named in
COMMANDS at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equipoise.coordinator.admin import describe_group, list_groups
from equipoise.coordinator.interventions import rebalance
from equipoise.coordinator.step import Step
from equipoise.simulate import messages
from equipoise.simulate.scripts import replies
from equipoise.simulate.scripts.arguments import Arguments, milliseconds, offsets, partitions
from equipoise.simulate.scripts.clients import ScriptClient
from equipoise.simulate.scripts.coordinator_stage import Stage
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequestTopic
from equipoise.wire.apis.k13_leave_group import MemberIdentity
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE, Assignment, Partitions, encode_assignment
from equipoise.wire.errors import ErrorCode, UsageError

HEARTBEAT_INTERVAL_MS = 3_000
_SETTLE_ROUNDS = 100

# -- the scene


def config(stage: Stage, given: Arguments) -> None:
    """config group.max.size=2"""
    for name, value in given.rest().items():
        stage.configure(name, value)


def topic(stage: Stage, given: Arguments) -> None:
    """topic orders partitions=3"""
    name = given.word()
    stage.created_topics += 1
    stage.topics[name] = given.number("partitions", 1), stage.created_topics.to_bytes(16)


def advance(stage: Stage, given: Arguments) -> None:
    """advance 60s alive=a,b every=3s: those members send heartbeats; of equal answers the first is shown"""
    target = stage.now + milliseconds(given.word())
    alive = [stage.client(name) for name in given.names("alive", [])]
    interval = given.duration("every", HEARTBEAT_INTERVAL_MS)
    stage.transcript.last_quiet.clear()
    while alive and stage.now + interval < target:
        stage.advance(interval)
        with stage.travelling():
            alive = [client for client in alive if _still_alive(stage, client)]
    stage.advance(target - stage.now)


def _still_alive(stage: Stage, client: ScriptClient) -> bool:
    if stage.is_waiting(client):
        return True  # a client that waits for an answer does not send heartbeats
    with stage.quiet():
        call = client.heartbeat()
    return call.error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


def delay_writes(stage: Stage, given: Arguments) -> None:
    """From here on records are under way until `durable` or `fail-writes`."""
    stage.start()
    stage.coordinator.hold_writes()


def durable(stage: Stage, given: Arguments) -> None:
    """All that is under way is written, and from now on nothing waits."""
    stage.end_writes(ErrorCode.NONE)


def fail_writes(stage: Stage, given: Arguments) -> None:
    """fail-writes KAFKA_STORAGE_ERROR"""
    if not stage.coordinator.under_way:
        raise UsageError("nothing is being written; begin with delay-writes")
    stage.end_writes(ErrorCode[given.word()])


def crash(stage: Stage, given: Arguments) -> None:
    """The broker is killed and starts again with what was durable."""
    stage.crash()


def unload(stage: Stage, given: Arguments) -> None:
    """The shard goes to another broker; this one answers NOT_COORDINATOR."""
    stage.start()
    stage.coordinator.close()


def load(stage: Stage, given: Arguments) -> None:
    """A broker reads the shard; until `loaded` it is loading."""
    stage.load()


def loaded(stage: Stage, given: Arguments) -> None:
    """The broker has read the shard."""
    stage.coordinator.activate()


# -- members


def client(stage: Stage, given: Arguments) -> None:
    """client a group=g session=10s rebalance=60s protocols=range topics=orders instance=i1 version=9

    Its settings, as `join` takes and keeps them too; nothing is sent.
    """
    one = stage.client(given.word())
    one.group_id = given.option("group", one.group_id) or ""
    one.session_timeout_ms = given.duration("session", one.session_timeout_ms)
    one.rebalance_timeout_ms = given.duration("rebalance", one.rebalance_timeout_ms)
    one.protocol_type = given.option("type", one.protocol_type) or ""
    one.assignors = given.names("protocols", one.assignors)
    one.topics = given.names("topics", one.topics)
    one.group_instance_id = given.option("instance", one.group_instance_id)
    one.version = given.number("version", one.version)


def join(stage: Stage, given: Arguments) -> None:
    """join a member=a-1 reason=..., and whatever `client` takes; the next `join a` needs none of it"""
    name, reason = given.word(), given.option("reason")
    one = stage.client(name)
    one.member_id = given.option("member", one.member_id) or ""
    given.words.insert(0, name)
    client(stage, given)
    one.join(reason=reason)


def restart(stage: Stage, given: Arguments) -> None:
    """restart a: the client begins anew, without its member id; the coordinator hears nothing of it"""
    stage.client(given.word()).forget()


def lose(stage: Stage, given: Arguments) -> None:
    """lose a b: the last connection of each ends, as when its process is killed"""
    while given.words:
        one = stage.client(given.word())
        stage.coordinator.run(stage.shard.connection_lost(one.group_id, one.member_id, stage.now))


def force(stage: Stage, given: Arguments) -> None:
    """force g: a test asks for a rebalance of the group"""
    step = Step(stage.now)
    rebalance(stage.shard, given.word(), step)
    stage.coordinator.run(step)


def sync(stage: Stage, given: Arguments) -> None:
    """sync a assign a=orders:0,1 b=orders:2 c=-"""
    client = stage.client(given.word())
    who, version = _identity(client, given), given.number("version", 5)
    protocol_name = given.option("protocol", client.protocol_name)
    assigned: dict[str, Partitions] = {}
    if given.words and given.word() == "assign":
        assigned = {name: partitions(text.split()) for name, text in given.rest().items()}
    by_id = {
        stage.clients[name].member_id if name in stage.clients else name: _assignment(client, found)
        for name, found in assigned.items()
    }
    client.sync(by_id, version=version, protocol_name=protocol_name, **who)


def _assignment(client: ScriptClient, found: Partitions) -> bytes:
    if client.protocol_type != PROTOCOL_TYPE:
        return f"opaque {found}".encode()
    return encode_assignment(Assignment(assigned_partitions=found))


def _identity(client: ScriptClient, given: Arguments) -> dict[str, Any]:
    return {
        "generation_id": given.number("generation", client.generation_id),
        "member_id": given.option("member", client.member_id) or "",
        "group_instance_id": given.option("instance", client.group_instance_id),
    }


def heartbeat(stage: Stage, given: Arguments) -> None:
    """heartbeat a generation=1 member=a-1 instance=i1"""
    client = stage.client(given.word())
    client.heartbeat(hold_ms=client.hold_ms, **_identity(client, given))


def hold(stage: Stage, given: Arguments) -> None:
    """hold a 2.7s: from here on its heartbeats may be held so long"""
    client = stage.client(given.word())
    client.hold_ms = milliseconds(given.word())


def release(stage: Stage, given: Arguments) -> None:
    """release a: another request came in on its connection"""
    client = stage.client(given.word())
    stage.coordinator.run(stage.shard.release_heartbeat(client.group_id, client.member_id, stage.now))


def leave(stage: Stage, given: Arguments) -> None:
    """leave a reason="the consumer is being closed" version=5"""
    client = stage.client(given.word())
    row = MemberIdentity(member_id=given.option("member", client.member_id) or "", reason=given.option("reason"))
    client.remove(row, version=given.number("version", 5))


def remove(stage: Stage, given: Arguments) -> None:
    """remove g @i1 a-1: an administrator's LeaveGroup; @ is a group.instance.id"""
    admin = stage.stranger("admin", given.word())
    rows = [
        MemberIdentity(member_id="", group_instance_id=word[1:])
        if word.startswith("@")
        else MemberIdentity(member_id=word)
        for word in given.words
    ]
    given.words = []
    admin.remove(*rows)


# -- offsets


def commit(stage: Stage, given: Arguments) -> None:
    """commit a generation=1 orders:0=41 metadata=text; by somebody who never joined: outside any membership"""
    client = stage.client(given.word())
    client.group_id = given.option("group", client.group_id) or ""
    who, metadata, version = _identity(client, given), given.option("metadata", ""), given.number("version", 9)
    retention_ms = given.duration("retention", -1)
    found = offsets(given.words)
    given.words = []
    unknown = found.keys() - stage.topics.keys()
    if unknown:
        raise UsageError(f"there is no topic {unknown.pop()}")
    ids = {name: stage.topics[name][1] for name in found}
    client.commit(found, metadata=metadata, version=version, retention_ms=retention_ms, topic_ids=ids, **who)


def fetch(stage: Stage, given: Arguments) -> None:
    """fetch g orders:0,1: what is committed; without partitions all there is"""
    group_id, asked = given.word(), partitions(given.words)
    given.words = []
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in asked.items()]
    stage.say(f"{group_id}: {replies.fetched(stage.shard.fetch_offsets(group_id, topics or None))}")


def delete_offsets(stage: Stage, given: Arguments) -> None:
    """delete-offsets g orders:0"""
    admin, found = stage.stranger("admin", given.word()), partitions(given.words)
    given.words = []
    admin.delete_offsets(found)


def delete_topic(stage: Stage, given: Arguments) -> None:
    """delete-topic orders: its offsets go with it, in every group"""
    name = given.word()
    _, topic_id = stage.topics.pop(name)
    stage.coordinator.run(stage.shard.topic_deleted(name, topic_id, stage.now))


# -- groups


def delete(stage: Stage, given: Arguments) -> None:
    """delete g"""
    stage.stranger("admin", given.word()).delete_group()


def describe(stage: Stage, given: Arguments) -> None:
    """describe g version=6"""
    for line in replies.described(describe_group(stage.shard, given.word(), given.number("version", 6))):
        stage.say(line)


def list_(stage: Stage, given: Arguments) -> None:
    """list states=Empty,Stable types=classic"""
    rows = list(list_groups(stage.shard, given.names("states", []), given.names("types", [])))
    for row in rows:
        stage.say(f"{row.group_id} {row.group_state} {row.group_type} protocol_type={row.protocol_type or '-'}")
    if not rows:
        stage.say("no groups")


def journal(stage: Stage, given: Arguments) -> None:
    """journal g: every rebalance that has ended"""
    for entry in stage.journal(given.word()):
        for line in stage.words.rebalance(entry):
            stage.say(line)


def explain(stage: Stage, given: Arguments) -> None:
    """explain g 2: how generation 2 came about"""
    entries, generation = stage.journal(given.word()), int(given.word())
    for entry in entries:
        if entry.generation == generation:
            for line in stage.words.explain(entry):
                stage.say(line)


# -- many steps in one


def settle(stage: Stage, given: Arguments) -> None:
    """settle a b: they behave like good clients until their group is Stable; only the outcome is shown"""
    clients = [stage.client(given.word())] + [stage.client(name) for name in given.words]
    given.words = []
    lines, stage.transcript.lines = stage.transcript.lines, []
    before = stage.now
    for _ in range(_SETTLE_ROUNDS):
        _act(stage, clients)
        if _is_settled(stage, clients):
            break
        deadline = stage.shard.next_deadline()
        stage.advance(0 if deadline is None else max(deadline - stage.now, 0))
    else:
        raise UsageError("they do not settle:\n" + "\n".join(stage.transcript.lines[-20:]))
    stage.transcript.lines = lines
    group = stage.group(clients[0].group_id)
    owners = " ".join(f"{client.member_id}={messages.by_topic(client.owned)}" for client in clients)
    text = f"{group.group_id}: Stable, generation {group.generation_id}, leader {group.leader}, {owners}"
    with stage.travelling(stage.now > before):
        stage.say(text)


def _act(stage: Stage, clients: list[ScriptClient]) -> None:
    """Each does what it is free to do, and again, until all wait or are content."""
    for _ in range(6):
        for client in clients:
            if stage.is_waiting(client):
                continue
            if client.is_unknown:
                client.forget()
            if client.wants_join:
                client.join()
            elif client.wants_sync:
                sync(stage, Arguments(f"{client.client_id} {_range_assignment(stage, client)}"))
            else:
                client.heartbeat()


def _range_assignment(stage: Stage, client: ScriptClient) -> str:
    """The leader's: of each topic a run of partitions for each member."""
    if client.leader != client.member_id:
        return ""
    found: dict[str, list[str]] = {member_id: [] for member_id in client.members}
    for name in client.topics:
        count, share = stage.topics[name][0], len(client.members)
        for place, member_id in enumerate(client.members):
            numbers = range(count * place // share, count * (place + 1) // share)
            if numbers:
                found[member_id].append(f"{name}:{','.join(map(str, numbers))}")
    return "assign " + " ".join(f"{member_id}='{' '.join(rows) or '-'}'" for member_id, rows in found.items())


def _is_settled(stage: Stage, clients: list[ScriptClient]) -> bool:
    group = stage.shard.groups.get(clients[0].group_id)
    return (
        group is not None and group.state.value == "Stable" and not any(c.wants_join or c.wants_sync for c in clients)
    )


Command = Callable[[Stage, Arguments], None]
COMMANDS: dict[str, Command] = {
    function.__name__.strip("_").replace("_", "-"): function
    for function in (
        *(config, topic, advance, settle),
        *(client, join, restart, lose, force, sync, heartbeat, hold, release, leave, remove),
        *(commit, fetch, delete_offsets, delete_topic),
        *(describe, list_, delete, journal, explain),
        *(delay_writes, durable, fail_writes, crash, unload, load, loaded),
    )
}
