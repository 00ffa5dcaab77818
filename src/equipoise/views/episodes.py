"""Episodes: rebalances that belong together, so that hundreds read as a few phrases.

Rebalances belong together if less than a minute lies between them, or if one client has caused them within 8 minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from equipoise.coordinator.reasons import Who
from equipoise.views.health import identity
from equipoise.views.model import Episode, EpisodeKind, RebalanceView
from equipoise.views.rebalances import POLL_OVERRUN, culprit, reason

NEAR_MS = 60_000
SAME_CLIENT_MS = 480_000
_FEW = 2
_CAME = {"member_joined", "static_member_replaced"}
_WENT = {"member_left", "member_removed", "member_gone"}
_LOST = {"session_expired", "connection_lost"}
_BACK = {"member_restarted"}
_GONE = _WENT | _LOST | {POLL_OVERRUN}


def episodes(rebalances: Iterable[RebalanceView]) -> tuple[Episode, ...]:
    """The episodes of rebalances that are in time. A rebalance that stands alone is none."""
    found: list[list[RebalanceView]] = []
    for view in rebalances:
        if found and _belongs(view, found[-1]):
            found[-1].append(view)
        else:
            found.append([view])
    before: list[RebalanceView | None] = [None, *(views[-1] for views in found)]
    return tuple(_episode(views, last) for last, views in zip(before, found, strict=False) if len(views) >= _FEW)


def _belongs(view: RebalanceView, before: Sequence[RebalanceView]) -> bool:
    apart = view.at - before[-1].at
    if apart < NEAR_MS:
        return True
    who, last = culprit(view), culprit(before[-1])
    is_same = who is not None and last is not None and identity(who) == identity(last)
    return is_same and apart < SAME_CLIENT_MS


def _most_gone(views: Sequence[RebalanceView], last: RebalanceView | None) -> int:
    """Members that one rebalance found gone: its cause names the first of them only. `last`: the one before."""
    pairs = pairwise(views if last is None else (last, *views))
    return max((before.members - view.members for before, view in pairs if reason(view) in _GONE), default=0)


def _episode(views: Sequence[RebalanceView], last: RebalanceView | None) -> Episode:
    kind, members, who, host = _kind(views)
    caused = [(reason(view), one) for view in views if (one := culprit(view)) is not None]
    began = views[0].started if views[0].started is not None else views[0].at
    return Episode(
        kind=kind,
        began=began,
        ended=views[-1].at,
        rebalances=tuple(one.key for one in views),
        members=members,
        came=len(_clients(caused, _CAME)),
        went=max(len(_clients(caused, _GONE)), _most_gone(views, last)),
        who=who,
        host=host,
    )


def _kind(views: Sequence[RebalanceView]) -> tuple[EpisodeKind, int, Who | None, str | None]:
    """The first that fits: too late polls of one client, restarts, a host, then joins, leaves and losses."""
    caused = [(reason(view), who) for view in views if (who := culprit(view)) is not None]
    late = Counter(identity(who) for why, who in caused if why == POLL_OVERRUN)
    if late and late.most_common(1)[0][1] >= _FEW:
        name, times = late.most_common(1)[0]
        return EpisodeKind.POLL_OVERRUNS, times, next(who for _, who in caused if identity(who) == name), None
    came, gone, lost = (_clients(caused, names) for names in (_CAME, _GONE, _LOST))
    again = (came & gone) | _clients(caused, _BACK)
    if len(again) >= _FEW:
        return EpisodeKind.ROLLING_RESTART, len(again), None, None
    hosts = Counter(who.client_host.lstrip("/") for why, who in caused if why in _LOST)
    if len(lost) >= _FEW and len(hosts) == 1:
        return EpisodeKind.HOST_LOST, len(lost), None, next(iter(hosts))
    return _plain_kind(came, gone, lost)


def _plain_kind(came: set[str], gone: set[str], lost: set[str]) -> tuple[EpisodeKind, int, None, None]:
    if came and not gone:
        return EpisodeKind.JOINED, len(came), None, None
    if gone and not came:
        return (EpisodeKind.LOST, len(lost), None, None) if lost == gone else (EpisodeKind.LEFT, len(gone), None, None)
    return EpisodeKind.OTHER, len(came | gone), None, None


def _clients(caused: Iterable[tuple[str, Who]], reasons: set[str]) -> set[str]:
    return {identity(who) for why, who in caused if why in reasons}
