"""What the pages show, as it is now: views come in from a source, events go out to the viewers.

A picture is made only while somebody looks at its group. It is made once for all who look.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from equipoise.console.web.broker_figures import BrokerFigures
from equipoise.console.web.kept import Kept
from equipoise.console.web.lag_history import LagHistory
from equipoise.console.web.owners import Owners
from equipoise.console.web.stream import Broadcast
from equipoise.console.web.timeline import Timeline, difference, snapshot, timeline
from equipoise.coordinator.events import Event
from equipoise.views.advice import Advice
from equipoise.views.model import ClusterView, GroupView, Ms, TopicView
from equipoise.watching.topic_details import TopicDetails

LAG_EVERY_MS = 5_000
MOST_GROUPS = 5_000  # with a history of lag


class Told(NamedTuple):
    """What is known of a group beside its view."""

    advice: Sequence[Advice] = ()
    events: Sequence[Event] = ()
    deleted_at: Ms | None = None


Fragments = Callable[[GroupView, Owners, Told, Kept], dict[str, str]]
Tell = Callable[[str], Told]


class GroupFeed:
    """One group: its view, its lag over time, and those who look at it."""

    def __init__(self, view: GroupView, window_ms: int) -> None:
        self.view = view
        self.owners = Owners()
        self.broadcast = Broadcast()
        self.lag = LagHistory()
        self.deleted_at: Ms | None = None
        self._window_ms = window_ms
        self._timeline: Timeline | None = None
        self._fragments: dict[str, str] = {}
        self._kept = Kept()
        self._note_lag(view)

    def update(self, view: GroupView, fragments: Fragments, tell: Tell) -> None:
        """A newer view. Viewers get what is different."""
        self._note_lag(view)
        self.view, self.deleted_at = view, None
        if self._timeline is None:
            self.broadcast.skip()
        elif not self.broadcast.viewers:
            self._timeline, self._kept = None, Kept()
            self.broadcast.skip()
        else:
            self._publish(self._timeline, fragments, tell(view.group_id))

    def gone(self, at: Ms, fragments: Fragments, tell: Tell) -> None:
        """The group was deleted. Its history stays, and those who look at it are told."""
        self.deleted_at = at
        if self._timeline is not None and self.broadcast.viewers:
            self._publish(self._timeline, fragments, tell(self.view.group_id)._replace(deleted_at=at))
        else:
            self.broadcast.skip()

    def _publish(self, before: Timeline, fragments: Fragments, told: Told) -> None:
        self._timeline = now = self._draw()
        events = difference(before, now)
        if events is None:
            self.broadcast.publish("reset", {})
        for kind, data in events or ():
            self.broadcast.publish(kind, data)
        fresh = fragments(self.view, self.owners, told, self._kept)
        changed = {name: html for name, html in fresh.items() if self._fragments.get(name) != html}
        if changed:
            self._fragments = fresh
            self.broadcast.publish("fragments", {"html": changed, "to": now.to})

    def snapshot(self) -> dict[str, Any]:
        """The picture that later events change."""
        if self._timeline is None:
            self._timeline, self._fragments = self._draw(), {}
        return snapshot(self._timeline, self.broadcast.seq)

    def words(self, fragments: Fragments, tell: Tell) -> dict[str, str]:
        """All that a page says of the group."""
        told = tell(self.view.group_id)._replace(deleted_at=self.deleted_at)
        return fragments(self.view, self.owners, told, self._kept)

    @property
    def picture(self) -> Timeline:
        """The picture as it is now, for the tables."""
        return self._draw()

    def _draw(self) -> Timeline:
        return timeline(self.view, self.owners, list(self.lag), self._window_ms)

    def _note_lag(self, view: GroupView) -> None:
        last = self.lag.last_at
        if last is None or view.as_of - last >= LAG_EVERY_MS:
            self.lag.add(view.as_of, view.lag.lag)


class Live:
    """All groups, and the cluster they are of."""

    def __init__(self, *, window_ms: int, fragments: Fragments) -> None:
        self.cluster: ClusterView | None = None
        self.overview = Broadcast()
        self.trouble: str | None = None  # why the cluster cannot be asked
        self.heard_at: Ms | None = None
        self.reading_since: Ms | None = None
        self.reading_percent: int | None = None
        self.list_wait_ms = 0  # so long may a viewer of the list wait: the list takes time to render
        self.metrics: Callable[[], bytes] | None = None  # for Prometheus; None before the first look
        self.tell: Tell = lambda _group_id: Told()  # of a group, from the source in use
        self.topics: Callable[[], Sequence[TopicView]] = tuple
        self.topic_details: Callable[[str], TopicDetails | None] = lambda _topic: None  # for the page of a topic
        self.broker_figures: Callable[[], BrokerFigures | None] = lambda: None  # for the page of the cluster
        self.notice: Callable[[], str] = lambda: ""  # what pages say while the cluster does not answer
        self._window_ms = window_ms
        self._fragments = fragments
        self._feeds: OrderedDict[str, GroupFeed] = OrderedDict()

    def update(self, cluster: ClusterView, reading_since: Ms | None = None) -> None:
        """A newer view of the whole cluster. Groups that are gone keep their page. `reading_since`: the past from then
        on is still being read."""
        has_other_source = self.cluster is not None and self.cluster.source is not cluster.source
        was_lost = self.trouble is not None or self.reading_since != reading_since
        self.cluster, self.trouble, self.heard_at = cluster, None, cluster.as_of
        self.reading_since = reading_since
        self.reading_percent = None if reading_since is None else self.reading_percent
        for view in cluster.groups:
            self._update_group(view)
        present = {view.group_id for view in cluster.groups}
        for group_id, feed in self._feeds.items():
            if group_id not in present and feed.deleted_at is None:
                feed.gone(cluster.as_of, self._fragments, self.tell)
        self.lists_changed()
        if has_other_source:
            self._load_again()
        if was_lost:
            self._tell_all("fragments", self._notices())

    def lists_changed(self) -> None:
        """Pages that are lists ask for their part anew."""
        self.overview.publish("changed", {"wait": self.list_wait_ms})

    def reads_back(self, share: float | None) -> None:
        """So much of the past was read. Those who look are told with each percent."""
        percent = None if share is None else min(int(share * 100), 99)
        if percent != self.reading_percent:
            self.reading_percent = percent
            self._tell_all("fragments", self._notices())

    def _load_again(self) -> None:
        """Another source tells other things on every part of a page. Who comes later has the new page already."""
        self._tell_all("reload", {})
        for broadcast in (self.overview, *(feed.broadcast for feed in self._feeds.values())):
            broadcast.skip()

    def _tell_all(self, kind: str, data: dict[str, Any]) -> None:
        for broadcast in (self.overview, *(feed.broadcast for feed in self._feeds.values())):
            if broadcast.viewers:
                broadcast.publish(kind, data)

    def _notices(self) -> dict[str, Any]:
        return {"html": {"trouble": self.notice()}}

    def lost(self, why: str) -> None:
        """The cluster does not answer. The last picture stays."""
        if self.trouble != why:
            self.trouble = why
            self._tell_all("fragments", self._notices())

    def snapshot(self, feed: GroupFeed, words: str | None) -> dict[str, Any]:
        """The picture of a group. `words`: the number of the moment of a page's words; None: a program asks. A page
        with words of another moment gets those of the picture: the group may change while the page is loaded."""
        found = feed.snapshot()
        if words is not None and words != str(found["seq"]):
            found["html"] = feed.words(self._fragments, self.tell)
        return found

    def looked_at(self) -> set[str]:
        """Groups that somebody has open."""
        return {group_id for group_id, feed in self._feeds.items() if feed.broadcast.viewers}

    def feed(self, group_id: str) -> GroupFeed | None:
        """A group that was seen, or None."""
        return self._feeds.get(group_id)

    def close(self) -> None:
        """Ends all streams: the console ends."""
        self.overview.close()
        for feed in self._feeds.values():
            feed.broadcast.close()

    def _update_group(self, view: GroupView) -> None:
        feed = self._feeds.get(view.group_id)
        if feed is None:
            self._feeds[view.group_id] = GroupFeed(view, self._window_ms)
            self._forget()
        elif feed.view is not view and feed.view != view:
            feed.update(view, self._fragments, self.tell)

    def _forget(self) -> None:
        gone = [name for name, feed in self._feeds.items() if feed.deleted_at is not None]
        for name in gone[: max(len(self._feeds) - MOST_GROUPS, 0)]:
            del self._feeds[name]
