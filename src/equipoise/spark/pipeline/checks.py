"""Checks before Spark starts, which takes seconds: brokers, topics, directories and code exist."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from equipoise.client.config import shared_settings
from equipoise.client.consumer.config import ConsumerConfig
from equipoise.member.partitions import TopicPartition
from equipoise.spark.options import ConsumerStrategy, SourceOptions
from equipoise.spark.pipeline.checkpoint_claim import CheckpointClaim, MemberPaths
from equipoise.spark.pipeline.config import OURS, TOPIC, Pipeline
from equipoise.spark.pipeline.errors import PipelineError
from equipoise.spark.sink.options import SinkOptions
from equipoise.spark.source.offset_reader import OffsetReader
from equipoise.wire.errors import KafkaError, UsageError

INSTANCE_ID = "kafka.group.instance.id"
_REACH_MS = 5_000


def check(pipeline: Pipeline, members: int) -> None:
    """PipelineError and UsageError say what is missing."""
    if members > 1 and not pipeline.is_shared:
        raise UsageError(
            f"--members {members}: members share the partitions of a group, so the pipeline needs a group, with "
            "group.mode member"
        )
    if pipeline.source_format == OURS:
        options = SourceOptions.parse(pipeline.source_options, streaming=True)
        if not _listing(options.consumer, options.strategy):
            where = options.consumer.bootstrap_servers
            raise PipelineError(f"no topic matches {options.strategy.pattern!r} at {where}: create one first")
    if pipeline.sink_format in (OURS, TOPIC):
        # Each member has a checkpoint, of its own, which the runner names.
        producer = SinkOptions.parse({**pipeline.sink_options, "checkpointLocation": "/"}).producer
        _listing(ConsumerConfig(**shared_settings(producer)), ConsumerStrategy(pattern=".*"))
    for number in range(members):
        places = paths_of(pipeline, number)
        if places.are_local:  # else it takes a Spark to look there
            CheckpointClaim(pipeline, places).check()


def _listing(config: ConsumerConfig, strategy: ConsumerStrategy) -> list[TopicPartition]:
    patience = min(config.default_api_timeout_ms, _REACH_MS)
    config = dataclasses.replace(config, default_api_timeout_ms=patience, request_timeout_ms=patience)
    reader = OffsetReader(config)
    try:
        return reader.partitions(strategy)
    except KafkaError as error:
        raise PipelineError(f"the brokers at {config.bootstrap_servers} cannot be used: {error}") from None
    finally:
        reader.close()


# -- places of a member


def source_of(pipeline: Pipeline, number: int, members: int) -> dict[str, str]:
    """The source's options for one member, with its own client id and, for static members, its own instance id."""
    if pipeline.source_format != OURS:
        return pipeline.source_options
    options = {"kafka.client.id": f"{pipeline.name}-{number}"} | pipeline.source_options
    return {
        name: f"{value}-{number}" if name.lower() == INSTANCE_ID and members > 1 else value
        for name, value in options.items()
    }


def checkpoint_of(pipeline: Pipeline, number: int) -> str:
    """Each member has its own checkpoint: two queries on the same checkpoint would spoil it."""
    return f"{pipeline.checkpoint}/member-{number}"


def path_of(pipeline: Pipeline, number: int) -> str:
    """The member's directory, named like a partition of a table: Spark reads the parent with a column `member`."""
    return f"{pipeline.sink['path'].rstrip('/')}/member={number}"


def paths_of(pipeline: Pipeline, number: int) -> MemberPaths:
    """The member's own directories."""
    checkpoint = None if pipeline.checkpoint is None else checkpoint_of(pipeline, number)
    return MemberPaths(checkpoint, path_of(pipeline, number) if pipeline.is_files else None)


# -- the function


def load(function: str) -> Callable[[Any], Any]:
    """Imports `module:function`. Modules in the current directory are found too."""
    module_name, _, name = function.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module_name), name, None)
    except ModuleNotFoundError as error:
        raise PipelineError(f"{function}: there is no module {error.name!r}, from {Path.cwd()} either") from None
    except Exception as error:  # noqa: BLE001 it is anybody's code
        raise PipelineError(f"{function}: its module fails: {blame(error)}") from None
    if not callable(found):
        raise PipelineError(f"{function}: the module has no function {name!r}")
    return found  # type: ignore[no-any-return]


def blame(error: Exception) -> str:
    """An error in the user's code as one sentence, with the innermost file and line."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{place}"
