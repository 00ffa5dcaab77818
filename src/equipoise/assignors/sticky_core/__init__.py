"""The core of the sticky assignors, on numbers: best balance, as few moved partitions as possible. `plan` begins."""
