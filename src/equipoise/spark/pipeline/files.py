"""Small files beside checkpoints and output: local, or wherever Spark's own settings reach (hdfs://, s3a:// ...)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from equipoise.spark.local_path import local_path


def is_local(place: str) -> bool:
    """Whether Python can reach the path without Spark: it has no scheme, or file:."""
    return local_path(place) is not None


class Local:
    """Files of this machine. A file is written whole or not at all."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory, in order; none if there is no such directory."""
        try:
            return sorted(os.listdir(_path(directory)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, file: str) -> str | None:
        """The text of a file; None if there is no such file."""
        try:
            return _path(file).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, file: str, text: str) -> None:
        """Creates the directories above the file, too."""
        path = _path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def _path(place: str) -> Path:
    found = local_path(place)
    assert found is not None
    return found


class Remote:
    """Files on other systems, by the scheme of their address. Spark's Hadoop reaches them in a running session."""

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext

    def names(self, directory: str) -> list[str]:
        """The names in a directory, in order; none if there is no such directory."""
        system, path = self._at(directory)
        if not system.exists(path):
            return []
        return sorted(str(one.getPath().getName()) for one in system.listStatus(path))

    def read(self, file: str) -> str | None:
        """The text of a file; None if there is no such file."""
        system, path = self._at(file)
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            return str(self._context._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, file: str, text: str) -> None:
        """Replaces the file. A reader may see a part of the text."""
        system, path = self._at(file)
        stream = system.create(path, True)
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()

    def _at(self, place: str) -> tuple[Any, Any]:
        path = self._context._jvm.org.apache.hadoop.fs.Path(place)
        return path.getFileSystem(self._context._jsc.hadoopConfiguration()), path


Files = Local | Remote
