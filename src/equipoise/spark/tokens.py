"""The metadata of a query's commits: by it the query knows its own commits from those of others."""

from __future__ import annotations

from equipoise.spark.offsets import SourceOffset

_MARK = "equipoise"


def token(offset: SourceOffset) -> str:
    return f"{_MARK} query={offset.query} batch={offset.batch}"


def is_own(metadata: str, query: str) -> bool:
    return bool(query) and metadata.startswith(f"{_MARK} query={query} ")
