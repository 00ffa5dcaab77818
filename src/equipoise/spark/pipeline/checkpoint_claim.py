"""Checks that a checkpoint, a sink and a pipeline belong together, before anything is read or committed.

Spark's file sinks skip batches whose number their directory already lists. With another query's checkpoint, the records
of such batches would be committed to the group and never written. A checkpoint therefore notes its sink, and a
directory of files notes its checkpoint; a mismatch is refused. The source itself checks group and topics of the
offsets, in any query (spark/source/source_offset.py).

A checkpoint or a directory without a note was written without `equipoise run`, or by an older release. Spark's own logs
must do then: batch N of the directory was written after Spark had planned batch N in the checkpoint, and before it
planned the next.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

from equipoise.spark.options import SourceOptions
from equipoise.spark.pipeline.config import OURS, TOPIC, Pipeline
from equipoise.spark.pipeline.errors import PipelineError
from equipoise.spark.pipeline.files import Files, Local, Remote, is_local
from equipoise.spark.source.source_offset import SourceOffset, check_checkpoint
from equipoise.wire.errors import UsageError

_NOTE = "equipoise.json"  # in a checkpoint
_SINK_NOTE = "_equipoise.json"  # in a directory of files, where readers of Spark pass over it
_LISTED = "_spark_metadata"  # where Spark keeps the files of each batch
_WHERE = "path", "topic"  # the options of sinks that say where rows go
_CLOCK_MS = 1_000  # by which a file may seem older than its batch
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MemberPaths:
    """The directories of one member. `checkpoint` is None if it is temporary, `files` if the sink writes none."""

    checkpoint: str | None
    files: str | None

    @property
    def are_local(self) -> bool:
        """Whether the check needs no Spark session: it can then run before one starts."""
        return all(is_local(place) for place in (self.checkpoint, self.files) if place is not None)


class CheckpointClaim:
    """The notes in one member's directories. Those on other file systems need a session, `spark`."""

    def __init__(self, pipeline: Pipeline, places: MemberPaths, spark: Any = None) -> None:
        self._pipeline = pipeline
        self._checkpoint = places.checkpoint
        self._path = places.files
        self._files: Files = Local() if places.are_local else Remote(spark)

    def check(self) -> None:
        """PipelineError says what does not match, and what to do."""
        if self._last("offsets") < 0:
            if self._is_written:
                raise self._other_checkpoint()
            return
        self._check_offsets()
        self._check_sink()
        if self._path is not None:
            self._check_files()

    def claim(self) -> None:
        """Notes on both sides that they belong together, if `check` finds nothing against it."""
        self.check()
        assert self._checkpoint is not None
        known = self._id or uuid.uuid4().hex
        if self._path is not None:
            self._note(f"{self._path}/{_SINK_NOTE}", {"checkpoint": known})
        self._note(f"{self._checkpoint}/{_NOTE}", {"id": known, "sink": self._sink})

    # -- the checkpoint

    @property
    def _id(self) -> str | None:
        """The id in the checkpoint's note, or else the id that Spark gave to the query."""
        if self._last("offsets") < 0:
            return None
        found = self._json(f"{self._checkpoint}/{_NOTE}") or self._json(f"{self._checkpoint}/metadata")
        return None if found is None else found.get("id")

    def _last(self, log: str) -> int:
        """The last batch in a log of the checkpoint; -1 if the log is empty."""
        if self._checkpoint is None:
            return -1
        return max(map(int, filter(str.isdecimal, self._files.names(f"{self._checkpoint}/{log}"))), default=-1)

    def _planned(self, batch: int) -> list[str]:
        """The text that Spark wrote when it planned the batch: version, metadata, and a line for each source."""
        return (self._files.read(f"{self._checkpoint}/offsets/{batch}") or "").splitlines()

    def _check_offsets(self) -> None:
        if self._pipeline.source_format != OURS:
            return
        options = SourceOptions.parse(self._pipeline.source_options, streaming=True)
        for line in self._planned(self._last("offsets"))[2:]:
            if line.startswith("{"):
                try:
                    check_checkpoint(SourceOffset.parse(json.loads(line)), options)
                except UsageError as error:
                    raise PipelineError(f"{self._checkpoint}: {error}") from None

    def _check_sink(self) -> None:
        found = self._json(f"{self._checkpoint}/{_NOTE}")
        sink = self._sink if found is None else found.get("sink", {})
        names = ("format",) if self._path is not None else ("format", *_WHERE)  # of files the note there tells more
        if any(sink.get(name) != self._sink.get(name) for name in names):
            raise PipelineError(
                f"{self._checkpoint} is the checkpoint of a pipeline that writes to {_told(sink)}, this one writes to "
                f"{_told(self._sink)}, where what was read before would be missing: name another checkpoint, or that "
                "sink"
            )

    @property
    def _sink(self) -> dict[str, str]:
        sink = {name: self._pipeline.sink[name] for name in _WHERE if name in self._pipeline.sink}
        kind = self._pipeline.sink_format
        return {"format": TOPIC if kind == OURS else kind} | sink

    # -- files

    @property
    def _is_written(self) -> bool:
        return bool(self._batches())

    def _batches(self) -> dict[int, str]:
        """Spark's lists of written files, by batch number. Every tenth list repeats all before it."""
        if self._path is None:
            return {}
        found = {name.removesuffix(".compact"): name for name in self._files.names(f"{self._path}/{_LISTED}")}
        return {int(batch): name for batch, name in found.items() if batch.isdecimal()}

    def _check_files(self) -> None:
        if not self._is_written:
            if self._last("commits") < 0:
                return  # it ended in its first batch
            raise PipelineError(
                f"{self._checkpoint} has written its batches elsewhere, not to {self._path}, where they would be "
                "missing: name another checkpoint, or the path that belongs to this one"
            )
        note = self._json(f"{self._path}/{_SINK_NOTE}")
        is_own = self._is_likely() if note is None else note.get("checkpoint") == self._id
        if not is_own:
            raise self._other_checkpoint()

    def _is_likely(self) -> bool:
        """By Spark's own logs: the last batches of both sides are equal, or one was under way and its files fit."""
        batches, planned = self._batches(), self._last("offsets")
        last = max(batches)
        if last not in (planned, planned - 1) or last < self._last("commits"):
            return False
        listed = (self._files.read(f"{self._path}/{_LISTED}/{batches[last]}") or "").splitlines()[1:]
        written = max((json.loads(line)["modificationTime"] for line in listed), default=None)
        return written is None or batches[last] != str(last) or self._is_within(last, written)

    def _is_within(self, batch: int, written_ms: int) -> bool:
        since, until = (_timestamp(self._planned(number)) for number in (batch, batch + 1))
        return (since or 0) - _CLOCK_MS <= written_ms and (until is None or written_ms <= until + _CLOCK_MS)

    def _other_checkpoint(self) -> PipelineError:
        named = self._checkpoint or "the temporary one of a pipeline that names none"
        return PipelineError(
            f"{self._path} has been written with another checkpoint than {named}: name that one, write to another "
            "path, or delete this one"
        )

    # -- notes

    def _json(self, file: str) -> Json | None:
        text = self._files.read(file)
        try:
            found = None if text is None else json.loads(text)
        except ValueError:
            raise PipelineError(f"{file} is damaged: restore it, or begin with a new checkpoint and path") from None
        return found if isinstance(found, dict) else None

    def _note(self, file: str, content: Json) -> None:
        text = json.dumps(content) + "\n"
        if self._files.read(file) == text:
            return
        try:
            self._files.write(file, text)
        except OSError as error:
            raise PipelineError(f"{file} cannot be written: {error.strerror}") from None


def _timestamp(planned: list[str]) -> int | None:
    return json.loads(planned[1])["batchTimestampMs"] if len(planned) > 1 else None


def _told(sink: Json) -> str:
    where = next((sink[name] for name in _WHERE if name in sink), None)
    return str(sink.get("format")) + ("" if where is None else f" {where!r}")
