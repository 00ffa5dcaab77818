"""python -m equipoise.proving.conformance [--seed S] [--steps N] [--only TEXT]"""

from __future__ import annotations

import argparse
import os
import sys

from equipoise.proving.conformance.run import STEPS, run
from equipoise.proving.fetched import Unavailable


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m equipoise.proving.conformance", description=__doc__)
    parser.add_argument("--seed", default=os.environ.get("EQUIPOISE_SEED"), help="of the random scripts")
    parser.add_argument("--steps", type=int, default=STEPS, help="random steps at least")
    parser.add_argument("--only", default="", help="the scripts with this in their name")
    chosen = parser.parse_args()
    try:
        summary = run(chosen.seed, chosen.steps, chosen.only)
    except Unavailable as missing:
        print(f"skipped, nothing was compared: {missing}")
        return 1
    print(summary.text())
    return 0 if summary.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
