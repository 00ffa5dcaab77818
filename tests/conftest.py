from __future__ import annotations

import gc
import os
from functools import cache
from pathlib import Path
from typing import Any

# Workers of pytest-xdist start servers side by side: each draws ports that no other draws. Before anything of ours is
# imported, and inherited by every child.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ["EQUIPOISE_PORTS_SHARE"] = f"{int(worker[2:])}/{os.environ['PYTEST_XDIST_WORKER_COUNT']}"

import pytest
from hypothesis import HealthCheck, settings

from tests.beside import Groups
from tests.effort import DRAWS_NEW, examples

# Collecting makes half a million objects that live as long as the run: the garbage collector need not look at them.
gc.disable()

# The fixtures of Apache Kafka and of clusters.
pytest_plugins = ("proving.fixtures",)

# How long an example takes says how busy the machine is. The examples are the same in every run, so that a change is
# not refused for what it did not touch; `make soak` draws new ones.
settings.register_profile(
    "untimed",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not DRAWS_NEW,
)
settings.load_profile("untimed")

# Files and folders whose tests take longest come first, so that short ones fill the gaps at the end of a run. Those
# that mostly wait stand between those that compute, so that both run beside each other.
_LONGEST_FIRST = (
    # of the proof: what waits for a cluster of three brokers, what computes, what waits
    "proving/test_clusters.py",
    "client/test_truncation_kafka.py",
    "client/test_hung_brokers_kafka.py",
    "spark/test_hung_leader_kafka.py",
    "proving/test_spark_clusters.py",
    "proving/test_scenarios.py",
    "proving/test_secured_failures.py",
    "console/groups/test_kafka.py",
    "proving/test_conformance.py",
    "proving/test_transacting_clients.py",
    "proving/test_consumer_conformance.py",
    "spark/test_exactly_once.py",
    "spark/test_on_a_cluster.py",
    "client/transactions/test_kafka.py",
    # of the tests
    "simulate/test_plan_and_reality.py",
    "spark/test_batch.py",
    "spark/test_checkpoint_claim.py",
    "interop/test_groups_lost_connections.py",
    "interop/test_transactions.py",
    "zookeeper",
    "spark/test_secrets.py",
    "interop/test_failovers.py",
    "spark/test_sharing.py",
    "crash",
    "spark/test_settings.py",
    "interop",
    "spark",
    "web/test_browser.py",
    "test_wheel.py",
    "web",
    "console/test_run.py",
    "incremental/test_hunts.py",
    "property/test_records_property.py",
    "test_testing_page.py",
    "console",
    "bench",
    "proving",
    "attack",
    "regex",
    "assignors",
    "consumer_groups",
    "broker",
    "client",
    "property",
    "member",
    "incremental",
    "simulate",
    "wire",
    "security",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-transcripts", action="store_true", help="renew the expectations in the scripts")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(item.path))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """`--dist loadgroup` would do, but pytest 9.2 does not take the names of groups from pytest-xdist 3.8."""
    return Groups(config, log) if config.getvalue("dist") == "loadfile" else None


@cache
def _rank(path: Path) -> int:
    inside = path.relative_to(Path(__file__).parent)
    named = [one for one in (str(inside), inside.parts[0]) if one in _LONGEST_FIRST]
    return _LONGEST_FIRST.index(named[0]) if named else len(_LONGEST_FIRST)
