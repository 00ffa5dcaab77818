"""Three hours of a group, told: 100 partitions, up to 50 members, about 200 rebalances. The same each time.

One member polls too late again and again; a rolling restart; the change to cooperative-sticky; twenty new members; a
host that is lost; and the late member again, which then costs almost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from equipoise.coordinator.reasons import Cause, Trigger, Who
from equipoise.views.episodes import episodes
from equipoise.views.health import Evidence, health, last_hour
from equipoise.views.model import (
    BrokerView,
    ClusterView,
    Dark,
    GroupType,
    GroupView,
    LagView,
    MemberView,
    Move,
    Ms,
    PartitionLag,
    Phases,
    RebalanceView,
    Source,
)

GROUP = "orders-etl"
BEGIN = Ms(1_792_764_000_000)  # 2026-10-23 14:00 UTC
MINUTE = 60_000
END = Ms(BEGIN + 180 * MINUTE)
LATE = "consumer poll timeout has expired."
Place = tuple[str, int]
PLACES: tuple[Place, ...] = (*(("orders", n) for n in range(60)), *(("payments", n) for n in range(40)))


@dataclass
class Story:
    """Owners as they are at one time, and the rebalances so far."""

    random: Random = field(default_factory=lambda: Random(16))
    owners: dict[Place, str] = field(default_factory=dict)
    members: dict[str, Who] = field(default_factory=dict)
    rebalances: list[RebalanceView] = field(default_factory=list)
    generation: int = 410
    is_eager: bool = True
    made: int = 0

    def who(self, number: int) -> Who:
        """A client with a new member id, as after each restart."""
        self.made += 1
        client = f"etl-{number}"
        member_id = f"{client}-{self.made:08x}-0000-4000-8000-{number:012x}"
        return Who(member_id, client, f"/10.0.{number // 16}.{number % 16 + 4}", None)

    def member(self, number: int) -> Who | None:
        """The client with this number, if it is in."""
        return next((who for who in self.members.values() if who.client_id == f"etl-{number}"), None)

    def join(self, at: int, number: int) -> None:
        """A client comes, and takes its share from those who have most."""
        who = self.who(number)
        self.members[who.member_id] = who
        self._settle(at, Cause(Trigger.MEMBER_JOINED, who), {})

    def leave(self, at: int, number: int, *, said: str = "") -> None:
        """A client goes, and says why."""
        who = self.member(number)
        if who is not None:
            del self.members[who.member_id]
            self._settle(at, Cause(Trigger.MEMBER_LEFT, who, said), {})

    def lose(self, at: int, numbers: Sequence[int]) -> None:
        """Clients fall silent. Their partitions are dark from then on."""
        gone = [who for number in numbers if (who := self.member(number)) is not None]
        dark = {place: 45_400 for place, owner in self.owners.items() if any(owner == who.member_id for who in gone)}
        for who in gone:
            del self.members[who.member_id]
        self._settle(at, Cause(Trigger.SESSION_EXPIRED, gone[0], "", 45_010, 45_000), dark)

    def _settle(self, at: int, cause: Cause, dark: dict[Place, int]) -> None:
        before = dict(self.owners)
        self._share()
        join = self.random.randrange(40, 400) if not self.is_eager else self.random.randrange(600, 3_800)
        moves = [
            Move(*place, before.get(place), owner) for place, owner in self.owners.items() if before.get(place) != owner
        ]
        stopped = dict.fromkeys(PLACES if self.is_eager else [(one.topic, one.partition) for one in moves], join + 12)
        arrivals = sorted((self.random.randrange(max(join, 1)), member_id) for member_id in list(self.members)[:49])
        self.generation += 1
        last = max(arrivals, default=(0, ""))
        self.rebalances.append(
            RebalanceView(
                key=str(self.generation),
                group_id=GROUP,
                old_generation=self.generation - 1,
                generation=self.generation,
                started=Ms(at),
                ended=Ms(at + join + 12),
                cause=cause,
                phases=Phases(cause.silent_ms, join, 9, 3),
                members=len(self.members),
                protocol="range" if self.is_eager else "cooperative-sticky",
                waited_for=self.members.get(last[1]),
                waited_ms=last[0],
                arrivals=tuple((member_id, after) for after, member_id in arrivals),
                unsynced=(last[1],),
                synced=((last[1], join + 60),),
                moved=tuple(moves),
                kept=len(self.owners) - len(moves),
                revoked=(),
                dark=tuple(Dark(*place, ms) for place, ms in sorted((stopped | dark).items())),
                source=Source.JOURNAL,
            )
        )

    def _share(self) -> None:
        """Balanced, and each keeps what it can."""
        kept: dict[str, list[Place]] = {member_id: [] for member_id in self.members}
        free: list[Place] = []
        for place in PLACES:
            kept.get(self.owners.get(place, ""), free).append(place)
        for place in free:
            min(kept.values(), key=len).append(place)
        while True:
            least, most = min(kept.values(), key=len), max(kept.values(), key=len)
            if len(most) - len(least) <= 1:
                break
            least.append(most.pop())
        self.owners = {place: member_id for member_id, places in kept.items() for place in places}


def told() -> Story:
    """The three hours."""
    story = Story()
    for number in range(30):
        who = story.who(number)
        story.members[who.member_id] = who
    story._share()
    for turn in range(11):
        at = BEGIN + 5 * MINUTE + turn * 290_000
        story.leave(at, 17, said=LATE)
        story.join(at + 38_000, 17)
    for number in range(30):
        at = BEGIN + 64 * MINUTE + number * 27_000
        story.leave(at, number)
        story.join(at + 14_000, number)
    story.is_eager = False
    for number in range(30, 50):
        story.join(BEGIN + 90 * MINUTE + (number - 30) * 9_000, number)
    story.lose(BEGIN + 117 * MINUTE, range(20, 26))
    for number in range(20, 26):
        story.join(BEGIN + 124 * MINUTE + number * 1_500, number)
    for turn in range(19):
        at = BEGIN + 131 * MINUTE + turn * 148_000
        story.leave(at, 17, said=LATE)
        story.join(at + 41_000, 17)
    return story


def view(story: Story, now: Ms = END, *, lag: int = 3_912) -> GroupView:
    """The group as its page shows it."""
    rebalances = tuple(story.rebalances)
    members, partitions = _members(story, now, lag), _partitions(story, lag)
    lags = LagView(lag=lag, behind_ms=2_000)
    evidence = Evidence(
        as_of=now,
        type=GroupType.CLASSIC,
        state="Stable",
        members=members,
        partitions=partitions,
        lag=lags,
        rebalances=rebalances,
    )
    return GroupView(
        group_id=GROUP,
        type=GroupType.CLASSIC,
        state="Stable",
        protocol="range" if story.is_eager else "cooperative-sticky",
        generation=story.generation,
        coordinator_id=1,
        members=members,
        partitions=partitions,
        lag=lags,
        rebalances=rebalances,
        rebalances_last_hour=len(last_hour(rebalances, now)),
        episodes=episodes(rebalances),
        health=health(evidence),
        source=Source.JOURNAL,
        as_of=now,
        seen_since=BEGIN,
    )


def few(story: Story) -> GroupView:
    """The same with a few of each: every kind of row is there, and none a hundred times."""
    whole = view(story)
    causes = ((one, one.cause) for one in whole.rebalances if isinstance(one.cause, Cause))
    kinds = {(cause.trigger, cause.said, one.protocol): one for one, cause in causes}
    some = {one.key for one in (*kinds.values(), *whole.rebalances[-3:])}
    return replace(
        whole,
        members=whole.members[:4],
        partitions=whole.partitions[::12],
        rebalances=tuple(one for one in whole.rebalances if one.key in some),
    )


def _members(story: Story, now: Ms, lag: int) -> tuple[MemberView, ...]:
    owned: dict[str, list[Place]] = {}
    for place, owner in story.owners.items():
        owned.setdefault(owner, []).append(place)
    seen = {member_id: Ms(now - place * 613 % 3_000) for place, member_id in enumerate(story.members)}
    return tuple(
        MemberView(
            member_id=who.member_id,
            group_instance_id=None,
            client_id=who.client_id,
            client_host=who.client_host,
            partitions=tuple(sorted(owned.get(who.member_id, ()))),
            topics=("orders", "payments"),
            lag=lag // max(len(story.members), 1),
            joined_at=BEGIN,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            last_seen=seen[who.member_id],
            session_ends=Ms(seen[who.member_id] + 45_000),
        )
        for who in story.members.values()
    )


def _partitions(story: Story, lag: int) -> tuple[PartitionLag, ...]:
    return tuple(
        PartitionLag(
            topic=topic,
            partition=number,
            committed=1_000_000 + number,
            log_start=0,
            log_end=1_000_000 + number + lag // len(PLACES),
            lag=lag // len(PLACES),
            behind_ms=2_000,
            member_id=story.owners.get((topic, number)),
        )
        for topic, number in PLACES
    )


def cluster(*groups: GroupView, now: Ms = END) -> ClusterView:
    """A cluster of one broker."""
    broker = BrokerView(node_id=1, host="localhost", port=9092, rack=None, is_controller=True)
    return ClusterView(cluster_id="told", brokers=(broker,), groups=groups, source=Source.JOURNAL, as_of=now)


def lag_at(at: int) -> int:
    """What the lag was: it rises while a restart stops all lanes, and is worked off afterwards."""
    minute = (at - BEGIN) / MINUTE
    if 64 <= minute < 78:
        return int(4_000 + 815_000 * ((minute - 64) / 14) ** 1.3)
    if 78 <= minute < 96:
        return int(819_000 * (1 - (minute - 78) / 18) + 4_000)
    return 4_000 + int(Random(int(minute)).random() * 1_500)
