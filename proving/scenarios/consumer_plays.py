"""The scenarios of groups with `group.protocol=consumer`: those of all groups, and those that only they know."""

from __future__ import annotations

from proving.members.view import CONSUMER
from proving.scenarios.clients import CONSUMER_CLIENTS
from proving.scenarios.plays import SCENARIOS, Play
from proving.scenarios.stage import PARTITIONS, Stage


def returning_static_member(stage: Stage) -> None:
    """A static member restarts. It has the same partitions again; the other member never notices. Then it is killed,
    and is back when its session has expired."""
    for name in ("one", "other"):
        stage.join(name, instance_id=name)
    stage.feed()
    stage.members.prepare("one again", stage.client)
    since, owned = stage.members.now, stage.members.owned("one")
    stage.members.close("one")
    stage.members.join("one again", stage.client, instance_id="one", alone=True)
    stage.members.wait_until("it has what it had", lambda: stage.members.owned("one again") == owned)
    stage.feed()
    stage.note("callbacks of the other", stage.members.rebalances("other", since))
    stage.members.kill("one again")
    stage.members.wait_until("it has expired", lambda: stage.members.view()[1] == 1)
    stage.join("one, a third time", instance_id="one")
    stage.feed()
    stage.note_end()


def upgrade_and_back(stage: Stage) -> None:
    """A classic group is restarted member by member with `group.protocol=consumer`, then member by member back. It has
    members at all times."""
    classic = stage.playing.classic
    stage.join("one", "two", "three", assignor=classic)
    stage.feed()
    protocols = [stage.protocol()]
    for round_, assignor in enumerate((CONSUMER, classic), 1):
        for name in ("one", "two", "three"):
            old = next(there for there in stage.members.names if there.startswith(name))
            stage.members.close(old)
            stage.join(f"{name}, round {round_}", assignor=assignor)
            stage.feed()
            protocols.append(stage.protocol())
    stage.note("protocols", protocols)
    stage.note_end()


def beside_others(stage: Stage) -> None:
    """A group of several clients: this one, confluent-kafka and Java with `group.protocol=consumer`, and kafka-python
    with the classic protocol. They come and go one by one."""
    stage.join("own")
    stage.feed()
    others = {
        "confluent": ("confluent-kafka", CONSUMER),
        "java": ("java", CONSUMER),
        "classic": ("kafka-python", "range"),
    }
    for name, (client, assignor) in others.items():
        stage.members.join(name, client, assignor=assignor)
        stage.settle()
        stage.feed()
    for name in ("java", "classic", "own"):
        stage.members.close(name)
        stage.settle()
        stage.feed()
    stage.note_end()


def one_by_one(stage: Stage) -> None:
    """As many members as partitions come, then all but one leave. No member gives up a partition that it keeps."""
    stage.join("first")
    since = stage.members.now
    for number in range(2, PARTITIONS + 1):
        stage.join(f"member {number}")
    stage.feed()
    kept = stage.members.owned("first")
    for number in range(2, PARTITIONS + 1):
        stage.members.close(f"member {number}")
    stage.settle()
    stage.feed()
    told = stage.members.rebalances("first", since)
    given_up = {place for kind, places in told if kind != "assigned" for place in places}
    stage.note("the first never lets go of what it keeps", not given_up & kept)
    stage.note_end()


_SAME = (
    "join",
    "leave",
    "crash",
    "pattern",
    "added partitions",
    "standalone commit",
    "max.poll overrun",
    "broker killed",
)
_OWN: dict[str, Play] = {
    "one by one": one_by_one,
    "returning static member": returning_static_member,
    "upgrade and back": upgrade_and_back,
    "beside others": beside_others,
}
CONSUMER_SCENARIOS: dict[str, Play] = {**{name: SCENARIOS[name] for name in _SAME}, **_OWN}
ALL_SCENARIOS = SCENARIOS | CONSUMER_SCENARIOS


def scenarios_of(client: str) -> dict[str, Play]:
    return CONSUMER_SCENARIOS if client in CONSUMER_CLIENTS else SCENARIOS
