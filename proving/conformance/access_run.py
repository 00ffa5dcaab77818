"""The comparison of ACLs as a whole: both brokers are started, a restricted principal asks, the answers are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proving.conformance.access import AccessSide, Compared, GuardedEquipoise, GuardedKafka, compare, listed
from proving.conformance.access_requests import access_requests
from proving.conformance.report import aligned

_HEADS = ("requests", "comparisons", "denied", "equal", "listed", "different")
_MEANT = 2  # differences that are listed, each of which has to occur


@dataclass(frozen=True)
class AccessSummary:
    """All comparisons, and what they came to."""

    compared: Sequence[Compared]

    @property
    def different(self) -> list[Compared]:
        """Those that are meant are not among them."""
        return [one for one in self.compared if not one.is_equal and listed(one) is None]

    @property
    def reasons(self) -> set[str]:
        """Why answers differ that are meant to."""
        return {why for one in self.compared if not one.is_equal and (why := listed(one)) is not None}

    @property
    def is_good(self) -> bool:
        """Nothing differs but what is listed, and all of that does."""
        return not self.different and len(self.reasons) == _MEANT

    def text(self) -> str:
        """A table by API, and every difference."""
        names = dict.fromkeys(_api(one) for one in self.compared)
        rows = [_row(name, [one for one in self.compared if _api(one) == name]) for name in sorted(names)]
        situations = len(dict.fromkeys(one.situation for one in self.compared))
        parts = [aligned([_HEADS, *rows, _row("all", self.compared)]), f"sets of ACLs: {situations}"]
        return "\n".join([*parts, *(f"listed: {why}" for why in sorted(self.reasons)), *map(str, self.different)])


def _api(one: Compared) -> str:
    return one.request.partition(" ")[0]


def _row(name: str, compared: Sequence[Compared]) -> tuple[str, ...]:
    equal = sum(one.is_equal for one in compared)
    meant = sum(not one.is_equal and listed(one) is not None for one in compared)
    denied = sum("AUTHORIZATION_FAILED" in str(one.kafka) for one in compared)
    return name, *map(str, (len(compared), denied, equal, meant, len(compared) - equal - meant))


def run() -> AccessSummary:
    """Unavailable: there is no Apache Kafka here."""
    with (
        GuardedKafka() as theirs,
        GuardedEquipoise() as own,
        AccessSide("kafka", theirs.port) as kafka,
        AccessSide("equipoise", own.port) as ours,
    ):
        kafka.prepare()
        ours.prepare()
        return AccessSummary(list(compare(kafka, ours, access_requests())))
