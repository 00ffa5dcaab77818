"""Records on disk or in memory: segments, recovery, retention, compaction, group commit."""
