"""What a script can say: one function per command, named in COMMANDS at the end."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.console import words
from equipoise.coordinator.admin import describe_group, list_groups
from equipoise.coordinator.step import Caller, Step
from equipoise.wire.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from equipoise.wire.apis.k09_offset_fetch import OffsetFetchRequestTopic
from equipoise.wire.apis.k12_heartbeat import HeartbeatRequest
from equipoise.wire.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from equipoise.wire.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from equipoise.wire.apis.k42_delete_groups import DeleteGroupsRequest
from equipoise.wire.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from equipoise.wire.consumer_protocol import PROTOCOL_TYPE, Assignment, Partitions, encode_assignment
from equipoise.wire.errors import ErrorCode, UsageError
from tests.transcripts import replies
from tests.transcripts.arguments import Arguments, milliseconds, offsets, partitions
from tests.transcripts.clients import Client
from tests.transcripts.world import Call, World

HEARTBEAT_INTERVAL_MS = 3_000
_SETTLE_ROUNDS = 100

# -- the scene


def config(world: World, given: Arguments) -> None:
    """config group.max.size=2"""
    for name, value in given.rest().items():
        world.configure(name, value)


def topic(world: World, given: Arguments) -> None:
    """topic orders partitions=3"""
    name = given.word()
    world.created_topics += 1
    world.topics[name] = given.number("partitions", 1), world.created_topics.to_bytes(16)


def advance(world: World, given: Arguments) -> None:
    """advance 60s alive=a,b every=3s: those members send heartbeats; of equal answers the first is shown"""
    target = world.now + milliseconds(given.word())
    alive = [world.client(name) for name in given.names("alive", [])]
    interval = given.duration("every", HEARTBEAT_INTERVAL_MS)
    world.forget_quiet()
    while alive and world.now + interval < target:
        world.advance(interval)
        with world.travelling():
            alive = [client for client in alive if _still_alive(world, client)]
    world.advance(target - world.now)


def _still_alive(world: World, client: Client) -> bool:
    if any(call.client is client for call in world.open):
        return True  # a client that waits for an answer does not send heartbeats
    return _heartbeat(world, client, Arguments(""), quiet=True).error_code in (
        None,
        ErrorCode.NONE,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )


def delay_writes(world: World, given: Arguments) -> None:
    """From here on records are under way until `durable` or `fail-writes`."""
    world.delays_writes = True


def durable(world: World, given: Arguments) -> None:
    world.settle_writes(ErrorCode.NONE)


def fail_writes(world: World, given: Arguments) -> None:
    """fail-writes KAFKA_STORAGE_ERROR"""
    if not world.waiting:
        raise UsageError("nothing is being written; begin with delay-writes")
    world.settle_writes(ErrorCode[given.word()])


def crash(world: World, given: Arguments) -> None:
    """The broker is killed and starts again with what was durable."""
    world.crash()


def unload(world: World, given: Arguments) -> None:
    """The shard goes to another broker; this one answers NOT_COORDINATOR."""
    world.unload()


def load(world: World, given: Arguments) -> None:
    """A broker reads the shard; until `loaded` it is loading."""
    world.load()


def loaded(world: World, given: Arguments) -> None:
    world.loaded()


# -- members


def client(world: World, given: Arguments) -> None:
    """client a group=g session=10s rebalance=60s protocols=range topics=orders instance=i1 version=9

    Its settings, as `join` takes and keeps them too; nothing is sent.
    """
    one = world.client(given.word())
    one.group = given.option("group", one.group) or ""
    one.session_ms = given.duration("session", one.session_ms)
    one.rebalance_ms = given.duration("rebalance", one.rebalance_ms)
    one.protocol_type = given.option("type", one.protocol_type) or ""
    one.protocols = given.names("protocols", one.protocols)
    one.topics = given.names("topics", one.topics)
    one.instance = given.option("instance", one.instance)
    one.version = given.number("version", one.version)


def join(world: World, given: Arguments) -> None:
    """join a member=a-1 reason=..., and whatever `client` takes; the next `join a` needs none of it"""
    name, reason = given.word(), given.option("reason")
    one = world.client(name)
    one.member_id = given.option("member", one.member_id) or ""
    given.words.insert(0, name)
    client(world, given)
    _join(world, one, reason)


def _join(world: World, client: Client, reason: str | None = None) -> Call:
    request = client.join_request(reason)
    return world.send(client, request, client.version, lambda r, caller: world.shard.join_group(r, caller, world.now))


def restart(world: World, given: Arguments) -> None:
    """restart a: the client begins anew, without its member id; the coordinator hears nothing of it"""
    world.client(given.word()).forget()


def sync(world: World, given: Arguments) -> None:
    """sync a assign a=orders:0,1 b=orders:2 c=-"""
    client = world.client(given.word())
    generation, member_id, instance = _identity(client, given)
    version = given.number("version", 5)
    protocol = given.option("protocol", client.protocol or "range")
    assigned: dict[str, Partitions] = {}
    if given.words and given.word() == "assign":
        assigned = {name: partitions(text.split()) for name, text in given.rest().items()}
    rows = [
        SyncGroupRequestAssignment(
            member_id=world.clients[name].member_id if name in world.clients else name,
            assignment=_assignment(client, found),
        )
        for name, found in assigned.items()
    ]
    request = SyncGroupRequest(
        group_id=client.group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=client.protocol_type,
        protocol_name=protocol,
        assignments=rows,
    )
    world.send(client, request, version, lambda r, caller: world.shard.sync_group(r, caller, world.now))


def _assignment(client: Client, found: Partitions) -> bytes:
    if client.protocol_type != PROTOCOL_TYPE:
        return f"opaque {found}".encode()
    return encode_assignment(Assignment(assigned_partitions=found))


def _identity(client: Client, given: Arguments) -> tuple[int, str, str | None]:
    generation = given.number("generation", client.generation)
    return generation, given.option("member", client.member_id) or "", given.option("instance", client.instance)


def heartbeat(world: World, given: Arguments) -> None:
    """heartbeat a generation=1 member=a-1 instance=i1"""
    one = world.client(given.word())
    _heartbeat(world, one, given, hold_ms=one.hold_ms)


def _heartbeat(world: World, client: Client, given: Arguments, *, hold_ms: int = 0, quiet: bool = False) -> Call:
    generation, member_id, instance = _identity(client, given)
    request = HeartbeatRequest(
        group_id=client.group, generation_id=generation, member_id=member_id, group_instance_id=instance
    )

    def submit(received: HeartbeatRequest, caller: Caller) -> Step:
        return world.shard.heartbeat(received, caller, world.now, hold_ms)

    return world.send(client, request, 4, submit, quiet=quiet)


def hold(world: World, given: Arguments) -> None:
    """hold a 2.7s: from here on its heartbeats may be held so long"""
    client = world.client(given.word())
    client.hold_ms = milliseconds(given.word())


def release(world: World, given: Arguments) -> None:
    """release a: another request came in on its connection"""
    client = world.client(given.word())
    world.run(world.shard.release_heartbeat(client.group, client.member_id, world.now))


def leave(world: World, given: Arguments) -> None:
    """leave a reason="the consumer is being closed" version=5"""
    client = world.client(given.word())
    row = MemberIdentity(member_id=given.option("member", client.member_id) or "", reason=given.option("reason"))
    version = given.number("version", 5)
    request = LeaveGroupRequest(group_id=client.group, member_id=row.member_id, members=[row])
    if version < 3:
        request.members = []
    else:
        request.member_id = ""
    world.send(client, request, version, lambda r, caller: world.shard.leave_group(r, caller, world.now))


def remove(world: World, given: Arguments) -> None:
    """remove g @i1 a-1: an administrator's LeaveGroup; @ is a group.instance.id"""
    admin = Client("admin", group=given.word())
    rows = [
        MemberIdentity(member_id="", group_instance_id=word[1:])
        if word.startswith("@")
        else MemberIdentity(member_id=word)
        for word in given.words
    ]
    given.words = []
    request = LeaveGroupRequest(group_id=admin.group, members=rows)
    world.send(admin, request, 5, lambda r, caller: world.shard.leave_group(r, caller, world.now))


# -- offsets


def commit(world: World, given: Arguments) -> None:
    """commit a generation=1 orders:0=41 metadata=text; by somebody who never joined: outside any membership"""
    client = world.client(given.word())
    client.group = given.option("group", client.group) or ""
    generation, member_id, instance = _identity(client, given)
    metadata, version = given.option("metadata", ""), given.number("version", 9)
    retention = given.duration("retention", -1)
    found = offsets(given.words)
    given.words = []
    unknown = found.keys() - world.topics.keys()
    if unknown:
        raise UsageError(f"there is no topic {unknown.pop()}")
    request = OffsetCommitRequest(
        group_id=client.group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        retention_time_ms=retention,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=n, committed_offset=o, committed_metadata=metadata)
                    for n, o in rows.items()
                ],
            )
            for name, rows in found.items()
        ],
    )
    ids = {name: world.topics[name][1] for name in found}
    world.send(client, request, version, lambda r, caller: world.shard.commit_offsets(r, ids, caller, world.now))


def fetch(world: World, given: Arguments) -> None:
    """fetch g orders:0,1: what is committed; without partitions all there is"""
    group_id, asked = given.word(), partitions(given.words)
    given.words = []
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in asked.items()]
    world.say(f"{group_id}: {replies.fetched(world.shard.fetch_offsets(group_id, topics or None))}")


def delete_offsets(world: World, given: Arguments) -> None:
    """delete-offsets g orders:0"""
    group_id = given.word()
    rows = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=n) for n in numbers]
        )
        for name, numbers in partitions(given.words).items()
    ]
    given.words = []
    request = OffsetDeleteRequest(group_id=group_id, topics=rows)
    world.send(Client("admin"), request, 0, lambda r, caller: world.shard.delete_offsets(r, caller, world.now))


def delete_topic(world: World, given: Arguments) -> None:
    """delete-topic orders: its offsets go with it, in every group"""
    name = given.word()
    _, topic_id = world.topics.pop(name)
    world.run(world.shard.topic_deleted(name, topic_id, world.now))


# -- groups


def delete(world: World, given: Arguments) -> None:
    """delete g"""
    group_id = given.word()
    request = DeleteGroupsRequest(groups_names=[group_id])
    world.send(Client("admin"), request, 2, lambda r, caller: world.shard.delete_group(group_id, caller, world.now))


def describe(world: World, given: Arguments) -> None:
    """describe g version=6"""
    for line in replies.described(describe_group(world.shard, given.word(), given.number("version", 6))):
        world.say(line)


def list_(world: World, given: Arguments) -> None:
    """list states=Empty,Stable types=classic"""
    rows = list(list_groups(world.shard, given.names("states", []), given.names("types", [])))
    for row in rows:
        world.say(f"{row.group_id} {row.group_state} {row.group_type} protocol_type={row.protocol_type or '-'}")
    if not rows:
        world.say("no groups")


def journal(world: World, given: Arguments) -> None:
    """journal g: every rebalance that has ended"""
    for entry in world.group(given.word()).journal.entries:
        for line in words.rebalance(entry):
            world.say(line)


def explain(world: World, given: Arguments) -> None:
    """explain g 2: how generation 2 came about"""
    entries, generation = world.group(given.word()).journal.entries, int(given.word())
    for entry in entries:
        if entry.generation == generation:
            for line in words.explain(entry):
                world.say(line)


# -- many steps in one


def settle(world: World, given: Arguments) -> None:
    """settle a b: they behave like good clients until their group is Stable; only the outcome is shown"""
    clients = [world.client(name) for name in given.words]
    given.words = []
    lines, world.lines = world.lines, []
    before = world.now
    for _ in range(_SETTLE_ROUNDS):
        _act(world, clients)
        if _is_settled(world, clients):
            break
        deadline = world.shard.next_deadline()
        world.advance(0 if deadline is None else max(deadline - world.now, 0))
    else:
        raise UsageError("they do not settle:\n" + "\n".join(world.lines[-20:]))
    world.lines = lines
    group = world.group(clients[0].group)
    owners = " ".join(f"{client.member_id}={replies.partitions(client.owned)}" for client in clients)
    text = f"{group.group_id}: Stable, generation {group.generation_id}, leader {group.leader}, {owners}"
    with world.travelling(world.now > before):
        world.say(text)


def _act(world: World, clients: list[Client]) -> None:
    """Each does what it is free to do, and again, until all wait or are content."""
    for _ in range(6):
        for client in clients:
            if any(call.client is client for call in world.open):
                continue
            if client.is_unknown:
                client.forget()
            if client.wants_join:
                _join(world, client)
            elif client.wants_sync:
                sync(world, Arguments(f"{client.name} {_range_assignment(world, client)}"))
            else:
                _heartbeat(world, client, Arguments(""))


def _range_assignment(world: World, client: Client) -> str:
    """The leader's: of each topic a run of partitions for each member."""
    if client.leader != client.member_id:
        return ""
    found: dict[str, list[str]] = {member_id: [] for member_id in client.followers}
    for name in client.topics:
        count, share = world.topics[name][0], len(client.followers)
        for place, member_id in enumerate(client.followers):
            numbers = range(count * place // share, count * (place + 1) // share)
            if numbers:
                found[member_id].append(f"{name}:{','.join(map(str, numbers))}")
    return "assign " + " ".join(f"{member_id}='{' '.join(rows) or '-'}'" for member_id, rows in found.items())


def _is_settled(world: World, clients: list[Client]) -> bool:
    group = world.shard.groups.get(clients[0].group)
    return (
        group is not None and group.state.value == "Stable" and not any(c.wants_join or c.wants_sync for c in clients)
    )


Command = Callable[[World, Arguments], None]
COMMANDS: dict[str, Command] = {
    function.__name__.strip("_").replace("_", "-"): function
    for function in (
        *(config, topic, advance, settle),
        *(client, join, restart, sync, heartbeat, hold, release, leave, remove),
        *(commit, fetch, delete_offsets, delete_topic),
        *(describe, list_, delete, journal, explain),
        *(delay_writes, durable, fail_writes, crash, unload, load, loaded),
    )
}
