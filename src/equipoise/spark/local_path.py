"""Paths of this machine among the places that Spark is given: checkpoints and directories of files."""

from __future__ import annotations

import re
from pathlib import Path

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def local_path(place: str) -> Path | None:
    """Where Python finds it without Spark; None: on another file system. As Hadoop reads them, `file:` addresses are no
    URLs: `%20`, `#` and `?` are letters like others."""
    if place.startswith("file:"):
        path = place.removeprefix("file:")
        return Path("/" + path[2:].partition("/")[2] if path.startswith("//") else path)
    return None if _SCHEME.match(place) else Path(place)
