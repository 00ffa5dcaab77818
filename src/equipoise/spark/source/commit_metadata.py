"""The metadata of a query's commits: by it the query knows its own commits from those of others."""

from __future__ import annotations

import re

from equipoise.spark.source.offsets import SourceOffset

_TOKEN = re.compile(r"equipoise query=(\w+) batch=(-?\d+)")


def token(offset: SourceOffset) -> str:
    return f"equipoise query={offset.query} batch={offset.batch}"


def own_batch(metadata: str, query: str) -> int | None:
    """The batch after which this query made the commit; None if another made it."""
    found = _TOKEN.fullmatch(metadata)
    return int(found[2]) if found is not None and found[1] == query else None
