"""The matrix as a table, and the page docs/compatibility.md."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from inspect import getdoc

from proving.brokers import kafka_version
from proving.scenarios.clients import ALL_CLIENTS, CLIENTS, CONSUMER_CLIENTS, client_version
from proving.scenarios.consumer_plays import ALL_SCENARIOS
from proving.scenarios.matrix import Outcome, differences

_ERRORS = {"max.poll overrun": "the commit after the overrun", "standalone commit": "the commit from outside"}
_HEAD = """# Compatibility: real clients on Equipoise and on Apache Kafka

`python -m proving scenarios` writes this page. Each scenario is one program. It runs with every client on both brokers,
with the same settings. Its notes must be the same on both: the number of partitions of each member, the committed
offsets, records that were read twice without need, the number of generations, and the error that the application sees.
Two counts of generations are left out. kafka-python joins once more if a join ends between two of its polls. After the
broker is killed, clients other than confluent-kafka may join again of their own accord.

Clients with `group.protocol=consumer` have a table of their own. How many epochs they take is left out.

`ok ok`: the scenario passed on Equipoise and on Kafka, with the same outcome. `-`: the client lacks the feature; the
reason is below the table.
"""


def cells(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], str]:
    """By client and scenario: what came out on Equipoise and on Kafka."""
    other = differences(outcomes)
    found: dict[tuple[str, str], str] = {}
    for outcome in outcomes:
        key = outcome.client, outcome.scenario
        word = "-" if outcome.lacks else "FAILED" if outcome.failure else "ok"
        found[key] = f"{found[key]} {word}" if key in found else word
    return {key: "DIFFERENT" if key in other else "-" if text == "- -" else text for key, text in found.items()}


def is_all_equal(outcomes: Sequence[Outcome]) -> bool:
    return not differences(outcomes) and not any(outcome.failure for outcome in outcomes)


def table(outcomes: Sequence[Outcome]) -> str:
    """Scenarios down, clients across, both brokers in each cell; then what is to be said about single cells. Clients
    with the consumer protocol have a table of their own."""
    found = cells(outcomes)
    parts = [_matrix(found, clients) for clients in (CLIENTS, CONSUMER_CLIENTS)]
    return "\n".join([*(line for part in parts if part for line in (*part, "")), *_remarks(outcomes)])


def _matrix(found: Mapping[tuple[str, str], str], known: Iterable[str]) -> list[str]:
    clients = [name for name in known if any(client == name for client, _ in found)]
    scenarios = [name for name in ALL_SCENARIOS if any((client, name) in found for client in clients)]
    rows = [[scenario, *(found.get((client, scenario), "") for client in clients)] for scenario in scenarios]
    return _table(["scenario", *clients], rows) if clients else []


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(words: Sequence[str]) -> str:
        return "| " + " | ".join(word.ljust(width) for word, width in zip(words, widths, strict=True)) + " |"

    return [line(head), line(["-" * width for width in widths]), *map(line, rows)]


def _remarks(outcomes: Sequence[Outcome]) -> list[str]:
    lacks = {f"- {one.client}, {one.scenario}: -, {one.lacks}" for one in outcomes if one.lacks}
    failed = [
        f"- {one.client}, {one.scenario}: FAILED on {one.broker}: {one.failure}" for one in outcomes if one.failure
    ]
    other = [f"- {client}, {scenario}: DIFFERENT: {text}" for (client, scenario), text in differences(outcomes).items()]
    return [*failed, *other, *sorted(lacks)]


def page(outcomes: Sequence[Outcome]) -> str:
    told = [_HEAD, table(outcomes), "\n## What each scenario shows\n", *_scenarios(outcomes)]
    told += ["\n## The errors that applications see\n", *_errors(outcomes)]
    return "\n".join([*told, "\n## Versions\n", *_versions(outcomes), ""])


def _scenarios(outcomes: Iterable[Outcome]) -> list[str]:
    played = {outcome.scenario for outcome in outcomes}
    return [
        f"- **{name}.** {' '.join((getdoc(play) or '').split())}"
        for name, play in ALL_SCENARIOS.items()
        if name in played
    ]


def _errors(outcomes: Sequence[Outcome]) -> list[str]:
    """Of the commits that must fail; equal on both brokers, or the cell above says that they are not."""
    seen: dict[str, dict[str, str]] = {}
    for outcome in outcomes:
        error = outcome.notes.get("refused with", "")
        seen.setdefault(outcome.client, {})[outcome.scenario] = error if isinstance(error, str) else ", ".join(error)
    rows = [[client, *(errors.get(scenario) or "-" for scenario in _ERRORS)] for client, errors in seen.items()]
    return _table(["client", *_ERRORS.values()], rows)


def _versions(outcomes: Iterable[Outcome]) -> list[str]:
    """Of those that have played."""
    played = [ALL_CLIENTS[outcome.client] for outcome in outcomes if outcome.notes]
    clients = dict.fromkeys(client.program or client.name for client in played)
    python = ".".join(map(str, sys.version_info[:3]))
    return [
        f"- Equipoise {version('equipoise')} on Python {python}",
        f"- Apache Kafka {kafka_version()}, one node of KRaft",
        *(f"- {client} {client_version(client)}" for client in clients),
    ]
