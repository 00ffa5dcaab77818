"""`equipoise run`: a pipeline on Spark, with a broker of its own if the pipeline names none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from equipoise.console.options import Whole, client_settings, command_config, file_option, parse_pairs, refuse_secrets

if TYPE_CHECKING:
    from rich.console import Console

    from equipoise.spark.pipeline.config import Pipeline

_PARTITIONS = 12  # of topics on a broker of our own: enough to be shared


@click.command(short_help="Run a pipeline on Spark: TOML or a function.")
@click.argument("pipeline", metavar="PIPELINE")
@click.option("--members", metavar="N", type=Whole(1), default=1, help="Queries that share the group.")
@click.option("--until-idle", is_flag=True, help="End when all is read that was there at the begin.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="Brokers, instead of those the pipeline names.")
@command_config
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="A value over the pipeline's own; repeatable."
)
@file_option("--log", help="Keep what Spark logs; else nobody does.")
def run(
    pipeline: str,
    members: int,
    until_idle: bool,
    master: str,
    bootstrap_servers: str | None,
    command_config: Path | None,
    settings: tuple[str, ...],
    log: Path | None,
) -> None:
    """Run a pipeline on Spark until Ctrl-C: a file of TOML, or module:function from DataFrame to DataFrame.

    What the function reads and writes is given by --set, under the names of the file: --set group=totals
    --set source.subscribe=orders --set sink.format=parquet --set sink.path=out.
    """
    with suppress(KeyboardInterrupt):  # before there is a run, or for the second time: to end one is no error
        from rich.console import Console

        from equipoise.client.security.properties import as_spark_options
        from equipoise.spark.pipeline.config import Pipeline
        from equipoise.spark.pipeline.runner import Run
        from equipoise.spark.pipeline.runner import run as run_plan

        # Names of topics, directories and brokers are no markup.
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        values = parse_pairs("--set", settings, "source.subscribe=orders")
        refuse_secrets("--set", values)
        found = Pipeline.read(pipeline, values)
        servers = None
        if command_config is not None:
            options, servers = client_settings(command_config)
            found = found.secured(as_spark_options(options))
        with _reached(found, bootstrap_servers or servers, console) as reached:
            plan = Run(pipeline=reached, members=members, until_idle=until_idle, master=master, log=log)
            run_plan(plan, console)


@contextmanager
def _reached(pipeline: Pipeline, brokers: str | None, console: Console) -> Iterator[Pipeline]:
    """Yields the brokers: those given, those of the pipeline, or a broker that runs here with the topics it needs."""
    if brokers is not None:
        yield pipeline.at(brokers)
    elif pipeline.brokers is not None or not pipeline.needs_brokers:
        yield pipeline
    else:
        from equipoise.broker import Broker

        # Beside the checkpoint, so that both speak of the same records when the pipeline is started again.
        data = None if pipeline.checkpoint is None else Path(pipeline.checkpoint, "broker")
        with Broker({"num.partitions": _PARTITIONS}, data=data) as broker:
            reached = pipeline.at(broker.bootstrap_servers)
            _create_topics(reached, broker.bootstrap_servers)
            where = "in memory" if data is None else f"in {data}"
            told = f"No brokers are named, so one runs here, on {broker.bootstrap_servers}, with its records {where}."
            console.print(told, soft_wrap=True)
            yield reached


def _create_topics(pipeline: Pipeline, brokers: str) -> None:
    from equipoise.client import Admin
    from equipoise.spark.options import SourceOptions
    from equipoise.spark.pipeline.config import OURS

    needed = {pipeline.sink["topic"]} if "topic" in pipeline.sink else set()
    if pipeline.source_format == OURS:
        needed |= set(SourceOptions.parse(pipeline.source_options, streaming=True).strategy.topics)
    with Admin(brokers) as admin:
        for topic in sorted(needed - {topic.name for topic in admin.topics()}):
            admin.create_topic(topic)


COMMAND = run
