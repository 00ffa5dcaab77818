"""Brings views from a watcher to the pages, for as long as the console runs.

A broker of ours has a journal only after its first group. A cluster may be away when the console starts, or go away
later. In each case the console goes on, says so, and looks again.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from equipoise.client import Admin
from equipoise.client.net.errors import is_final
from equipoise.console.metrics import Choice, GroupCollector, lateness, registry_of
from equipoise.console.web.live import Live, Told
from equipoise.views.advice import advise
from equipoise.views.events import events_of
from equipoise.views.groups import summary_of
from equipoise.views.model import ClusterView, Ms, Source, TopicView
from equipoise.watching.access import Access, Questions
from equipoise.watching.rounds import Rounds
from equipoise.watching.topics import topic_views
from equipoise.watching.watcher import JOURNAL_TOPIC, Watched, Watcher, wall_time, watching
from equipoise.wire.errors import EquipoiseError
from equipoise.wire.text import LONGEST_NAME, printable

REFRESH_S = 2.0
_AWAY_S = 5.0  # without news: the last picture turns grey
_AGAIN_S = 1.0
_SOON_S = 0.2  # a first look that takes longer is shown in part
_PERCENT_S = 0.5  # between two words on how much of the past was read
_LEAST_S = 0.05  # between two views of a busy cluster
_SHARE = 10  # views take at most one part in so many of the time,
LONGEST_PAUSE_S = 0.5  # but what happens is on the page within a second
_BETTER_S = 1.0  # between two questions for a better source


async def watch_cluster(access: Access, live: Live, window_ms: int) -> None:
    """Until it is cancelled. AuthenticationError, TlsError: the cluster refuses us, and would do so again."""
    while True:
        try:
            since = Ms(wall_time() - window_ms)
            async with watching(access, Watched(since=since, starts=True, sizes=True)) as watcher:
                await _first_look(watcher, live, since)
                rounds = Rounds(watcher, live.looked_at)
                live.metrics = registry_of(GroupCollector(watcher, Choice(), partial(_lateness, watcher), rounds.view))
                live.tell = partial(_told, watcher)
                live.topics = partial(_topics, watcher)
                live.update(rounds.view())
                await _follow(watcher, rounds, access, live)
        except (EquipoiseError, OSError, TimeoutError) as error:
            if is_final(error):
                raise
            live.lost(printable(str(error), LONGEST_NAME) or type(error).__name__)
        await asyncio.sleep(_AGAIN_S)


async def _first_look(watcher: Watcher, live: Live, since: Ms) -> None:
    """The past may take long to read. Meanwhile the pages show what questions alone tell: these are asked first, since
    reading leaves little time for them."""
    glanced = await _glance(watcher.access) if live.cluster is None else None
    looking = asyncio.create_task(watcher.begin())
    try:
        done, _ = await asyncio.wait({looking}, timeout=_SOON_S)
        if not done and glanced is not None:
            live.update(glanced, reading_since=since)
        while not looking.done():
            live.reads_back(watcher.read_back)
            await asyncio.wait({looking}, timeout=_PERCENT_S)
        await looking
    finally:
        looking.cancel()


async def _glance(access: Access) -> ClusterView:
    """Groups and their states. What it raises, the whole look would meet too."""
    async with watching(access, Watched()) as quick:
        return await quick.glance()


async def _follow(watcher: Watcher, rounds: Rounds, access: Access, live: Live) -> None:
    """Returns when there is a better source: then all is looked at anew."""
    better = asyncio.create_task(_better_source(access, _tells_more(watcher.store.source) - watcher.topics.keys()))
    try:
        async with watcher.live(REFRESH_S, rounds.keep_asking):
            telling = asyncio.create_task(_tell(watcher, rounds, live))
            await until_one_ends(better, telling)
    finally:
        better.cancel()


async def until_one_ends(*tasks: asyncio.Task[Any]) -> None:
    """Cancels the other tasks when one has ended, and raises what that one raises."""
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for task in done:
        task.result()


def _lateness(watcher: Watcher) -> float | None:
    return lateness(watcher.answered, watcher.now())


def _told(watcher: Watcher, group_id: str) -> Told:
    """What `equipoise history` would advise from the same rows, and the events among them."""
    journal, records = watcher.store.entries(group_id)
    return Told(advise(summary_of(group_id, journal, records)), events_of(journal))


def _topics(watcher: Watcher) -> tuple[TopicView, ...]:
    return topic_views(watcher.topics, watcher.store, watcher.store.sizes())


async def _tell(watcher: Watcher, rounds: Rounds, live: Live) -> None:
    version = watcher.version
    while True:
        try:
            async with asyncio.timeout(_AWAY_S):  # wait_for() would drop a cancellation that comes with the news
                version = await watcher.changed(version)
        except TimeoutError:
            live.lost(f"no answer for {_AWAY_S:.0f} s and more, trying again")
            continue
        began = time.perf_counter()
        live.update(rounds.view())
        pause = (time.perf_counter() - began) * _SHARE
        await asyncio.sleep(min(max(_LEAST_S, pause), LONGEST_PAUSE_S))


async def _better_source(access: Access, wanted: set[str]) -> None:
    """Returns when one of these topics is there, which tells more than the source in use. A broker of ours creates its
    journal with its first group."""
    questions = Questions(access)
    pause = _BETTER_S
    try:
        while wanted:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 30.0)
            try:
                found = {one.name for one in await questions.ask(Admin.topics)}
            except (EquipoiseError, OSError):
                continue
            if found & wanted:
                return
        await asyncio.Event().wait()
    finally:
        questions.close()


def _tells_more(used: Source) -> set[str]:
    """A watcher that can only poll looks for a source by itself. One that reads group records of our broker, because
    somebody committed before the first group was there, does not."""
    return {JOURNAL_TOPIC} if used is Source.OFFSETS_TOPIC else set()
