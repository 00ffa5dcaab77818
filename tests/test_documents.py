"""The documents say what the code does: SUPPORTED.md row by row, the README's commands, the table of dependencies."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bench.__main__ import app as bench
from equipoise.broker.config import BrokerConfig, rows
from equipoise.broker.groups.configs import GROUP_ROWS
from equipoise.broker.handlers import HANDLERS, k75_describe_topic_partitions
from equipoise.broker.net.listener_config import listener_rows
from equipoise.broker.topics.config import NO_EFFECT, TOPIC_ROWS
from equipoise.broker.topics.fetch_sessions import MAX_PARTITIONS_OF_ALL
from equipoise.broker.topics.topics import MAX_ELEMENTS, MAX_NEW_PARTITIONS, SPARE_ELEMENTS
from equipoise.client.consumer.config import rows as consumer_settings
from equipoise.client.producer.config import rows as producer_settings
from equipoise.client.security.settings import TWINS, WITHOUT_EFFECT
from equipoise.client.security.settings import rows as security_settings
from equipoise.console.main import app
from equipoise.coordinator.consumer.regex import MOST_NAMED
from equipoise.coordinator.consumer.regex.dfa import MOST_STATES
from equipoise.coordinator.consumer.regex.parse import (
    DEEPEST,
    LONGEST_PATTERN,
    MOST_NODES,
    MOST_OPERATORS,
    MOST_REPEATS,
)
from equipoise.coordinator.transactions.expiry import MOST_AT_ONCE
from equipoise.coordinator.transactions.shard import MOST_PARKED
from equipoise.security.acls import MOST_DECIDED
from equipoise.security.quotas import MOST_RATES
from equipoise.security.secrets import Secret
from equipoise.settings import kafka_name, render
from equipoise.spark.settings import TUNED
from equipoise.wire.compiler import LONGEST_MESSAGE
from equipoise.wire.consumer_protocol import MOST_ELEMENTS
from equipoise.wire.primitives import LONGEST_STRING
from equipoise.wire.schema import version_range
from proving.__main__ import app as proving

ROOT = Path(__file__).parent.parent


def table(document: str, heading: str) -> list[list[str]]:
    """The cells of the first table under a heading."""
    text = (ROOT / document).read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_supported_lists_the_apis_and_versions_that_are_served() -> None:
    listed = {(int(key), name, version_range(versions)) for key, name, versions, _ in table("SUPPORTED.md", "APIs")}
    assert listed == {(handler.api.key, handler.api.name, handler.versions) for handler in HANDLERS.values()}


def test_supported_lists_the_settings_with_their_defaults() -> None:
    listed = [(name, default) for name, default, _ in table("SUPPORTED.md", "Broker settings")]
    assert listed == [(name, render(row.default) or "(empty)") for name, row in rows().items()]


def test_the_limits_are_those_of_the_code() -> None:
    config = BrokerConfig()
    of_partitions = f"{SPARE_ELEMENTS}, and 4 for each partition of the broker"
    supported = [limit for _, limit in table("SUPPORTED.md", "Limits")]
    assert supported == [
        str(MAX_ELEMENTS),
        of_partitions,
        str(LONGEST_STRING),
        str(MAX_NEW_PARTITIONS),
        str(k75_describe_topic_partitions.PAGE),
        str(MAX_PARTITIONS_OF_ALL),
    ]
    one = [limit for _, limit, _ in table("docs/limits.md", "Of one request")]
    assert one == [
        f"{config.socket_request_max_bytes} (`socket.request.max.bytes`)",
        str(MAX_ELEMENTS),
        of_partitions,
        str(MOST_ELEMENTS),
        f"{LONGEST_STRING}, as in Kafka",
        f"{MAX_NEW_PARTITIONS}, as in Kafka",
        str(LONGEST_MESSAGE),
        f"{config.request_receive_timeout_ms} ms (`request.receive.timeout.ms`)",
    ]
    of_a_regex = [re.split(r"[ ,]", limit)[0] for _, limit, _ in table("docs/limits.md", "Of a regular expression")]
    limits = (LONGEST_PATTERN, MOST_OPERATORS, MOST_NAMED, MOST_REPEATS, MOST_NODES, DEEPEST, MOST_STATES)
    assert of_a_regex == [str(one) for one in limits]
    together = [re.split(r"[ ,;]", limit)[0] for _, limit, _ in table("docs/limits.md", "Of all connections together")]
    assert together == [
        str(config.queued_max_request_bytes),
        str(config.max_connections),
        str(config.max_in_flight_requests_per_connection),
        "1",
        str(config.max_partitions),
        str(MOST_PARKED),
        str(MOST_AT_ONCE),
        str(MOST_DECIDED),
        str(MOST_RATES),
        str(config.max_incremental_fetch_session_cache_slots),
        str(MAX_PARTITIONS_OF_ALL),
    ]


def test_supported_lists_the_topic_configs() -> None:
    listed = dict(table("SUPPORTED.md", "Topic configs"))
    assert listed == {name: kafka_name(row.name) for name, row in TOPIC_ROWS.items()}
    text = (ROOT / "SUPPORTED.md").read_text(encoding="utf-8")
    without_effect = text.rpartition("Accepted without effect:")[2].partition("\n## ")[0]
    assert set(re.findall(r"`([^`]+)`", without_effect)) == set(NO_EFFECT)


def test_supported_lists_the_group_configs() -> None:
    listed = dict(table("SUPPORTED.md", "Group configs"))
    assert listed == {name: kafka_name(row.name) for name, row in GROUP_ROWS.items()}


def test_the_consumers_page_lists_its_settings() -> None:
    listed = table("docs/consumer.md", "Settings")
    assert listed == [[name, _default(row.default), row.metadata["doc"]] for name, row in consumer_settings().items()]


def test_the_producers_page_lists_its_settings() -> None:
    listed = table("docs/producer.md", "Settings")
    assert listed == [[name, _default(row.default), row.metadata["doc"]] for name, row in producer_settings().items()]


def test_the_security_page_lists_its_settings_and_their_twins() -> None:
    listed = table("docs/security.md", "Settings")
    assert listed == [[name, _default(row.default), row.metadata["doc"]] for name, row in security_settings().items()]
    assert [tuple(row) for row in table("docs/security.md", "Twins")] == list(TWINS.items())
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in WITHOUT_EFFECT)
    assert TUNED["spark.redaction.regex"] in page


def test_the_page_on_the_secured_broker_lists_the_settings_of_a_listener() -> None:
    listed = table("docs/broker-security.md", "Settings of a listener")
    assert listed == [[name, _default(row.default), row.metadata["doc"]] for name, row in listener_rows().items()]


def _default(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return "(none)" if value is None or isinstance(value, Secret) else render(value) or "(empty)"


def test_the_commands_page_lists_every_command_with_its_options() -> None:
    assert _listed("docs/command.md", "Commands") == dict(_commands(app, ()))


def test_the_evidence_page_lists_benchmarks_and_comparisons_with_their_options() -> None:
    assert _listed("docs/evidence.md", "Benchmarks") == dict(_commands(bench, ()))
    assert _listed("docs/evidence.md", "Comparisons") == dict(_commands(proving, ()))


def _listed(document: str, heading: str) -> dict[str, list[str]]:
    return {row[0]: re.findall(r"--[a-z-]+", row[-1]) for row in table(document, heading)}


def _commands(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    for name, one in group.commands.items():
        if isinstance(one, click.Group):
            yield from _commands(one, (*path, name))
        else:
            yield " ".join((*path, name)), [row.opts[0] for row in one.params if isinstance(row, click.Option)]


@pytest.mark.parametrize(
    ("heading", "most"),
    [("The walk of one JoinGroup, from socket to answer", 9), ("The walk of one commit, from Spark to disk", 10)],
    ids=["JoinGroup", "commit"],
)
def test_a_walk_names_functions_that_are_there(heading: str, most: int) -> None:
    rows = table("docs/design.md", heading)
    hops = [hop for hop, *_ in rows if hop != "back"]
    assert hops == [str(number) for number in range(1, len(hops) + 1)]
    assert len(hops) <= most
    assert [(file, function) for _, file, function, _ in rows if function not in functions_of(file)] == []


def functions_of(file: str) -> set[str]:
    """The functions of a module of the package, methods as Class.method."""
    tree = ast.parse((ROOT / "src" / "equipoise" / file).read_text(encoding="utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    methods = {
        f"{kind.name}.{one.name}"
        for kind in tree.body
        if isinstance(kind, ast.ClassDef)
        for one in kind.body
        if isinstance(one, kinds)
    }
    return methods | {one.name for one in tree.body if isinstance(one, kinds)}


def test_every_room_is_in_the_table() -> None:
    top = (ROOT / "src" / "equipoise").iterdir()
    rooms = {one.name for one in top if one.suffix == ".py"}
    rooms |= {f"{one.parent.name}/" for one in (ROOT / "src" / "equipoise").glob("*/__init__.py")}
    listed = {row[0] for row in table("docs/design.md", "Rooms, and what each may touch")} - {"package", "---"}
    assert listed == {one for one in rooms if not one.startswith("__")} | {"proving/", "bench/"}


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    for extra in project["project"]["optional-dependencies"].values():
        declared += extra
    names = {re.split(r"[ <>=;\[]", line)[0] for line in declared}
    reasons = {name.strip() for row in table("docs/design.md", "Dependencies") for name in row[0].split(",")}
    assert names == reasons


def test_the_readme_gives_the_two_commands_and_ci_runs_the_second() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^make run\b", readme, re.MULTILINE)
    assert re.search(r"^make test\b", readme, re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_no_registry_is_named_in_the_lock() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    pinned = re.findall(r"^[a-z0-9_.-]+==\S+", lock, re.MULTILINE)
    assert len(pinned) > 20
    assert lock.count("--hash=sha256:") >= len(pinned)


def _pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the usual renderers make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    for page in _pages():
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            if "://" in target:
                continue
            file, _, anchor = target.partition("#")
            there = (page.parent / file).resolve() if file else page
            assert there.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in _anchors(there), f"{page.name}: {target}"


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    rows = re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", index.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {(index.parent / target).resolve() for target in rows}
    assert listed >= {page for page in (ROOT / "docs").glob("*.md") if page != index}


def test_the_index_of_terms_leads_to_files() -> None:
    for *_, places in table("docs/README.md", "Terms and KIPs"):
        for place in re.findall(r"[\w/]+(?:\.\w+|/)", places):
            is_there = (ROOT / "src" / "equipoise" / place).exists() or (ROOT / place).exists()
            assert is_there, f"docs/README.md, Terms and KIPs: {place} has moved"
