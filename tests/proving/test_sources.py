"""docs/rules/sources.md is true: Kafka, and Spark's connector, have the classes and methods that it names."""

from __future__ import annotations

import re
import subprocess
import zipfile
from functools import cache
from pathlib import Path

import pytest

from proving.fetched import POMS, jars, java
from tests.proving.needed import needed
from tests.test_rules import Source, load_sources, named, ours

pytestmark = pytest.mark.kafka

FETCHED = {"Apache Kafka": "kafka", "Apache Spark's connector": "spark", "Java": None}  # in jars; None: in the JDK


def product_of(source: Source) -> str:
    return source.version.rpartition(" ")[0]


def is_of_today(source: Source) -> bool:
    """The consumer on ZooKeeper was removed long ago."""
    return source.version != "Apache Kafka 1.1"


SOURCES = [source for source in load_sources() if is_of_today(source)]


def binary_name(source: Source) -> str:
    return f"{source.package}.{source.name.replace('.', '$')}"


@cache
def members(version: str) -> dict[str, set[str]]:
    """By class, what javap prints of it; all classes of a table at once, for a JVM takes long to start."""
    found = [source for source in SOURCES if source.version == version]
    pom = FETCHED[product_of(found[0])]
    path = ["-cp", f"{needed(lambda: jars(pom))}/*"] if pom else []
    command = [needed(lambda: java("javap")), "-p", *path, *map(binary_name, found)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    blocks = re.split(r"^(?=\S.*\{$)", ended.stdout, flags=re.MULTILINE)[1:]
    printed = {re.findall(r"(?:class|interface) ([\w.$]+)", block)[0]: block for block in blocks}
    return {name: set(re.findall(r"([\w]+)(?=[(;])", block)) for name, block in printed.items()}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_the_class_has_the_methods(source: Source) -> None:
    found = members(source.version)
    assert binary_name(source) in found
    assert set(source.methods) <= found[binary_name(source)]


def test_the_names_are_those_of_the_version_that_is_proved_against() -> None:
    pom = (POMS / "kafka.xml").read_text(encoding="utf-8")
    versions = {source.version for source in SOURCES if product_of(source) == "Apache Kafka"}
    assert versions == {f"Apache Kafka {one}" for one in re.findall("<kafka.version>(.+)</", pom)}


def test_no_class_of_kafka_is_named_that_is_not_in_the_table() -> None:
    """A name that is ours too means ours. One word alone, as Record, is English."""
    directory: Path = needed(lambda: jars("kafka"))
    classes = {
        Path(entry).stem
        for jar in directory.glob("kafka*.jar")
        for entry in zipfile.ZipFile(jar).namelist()
        if re.search(r"/[A-Z][a-z]+[A-Z]\w*\.class$", entry)
    }
    known = {source.name.partition(".")[0] for source in load_sources()}
    assert sorted(one for one in named() & classes if one not in known | ours()) == []
