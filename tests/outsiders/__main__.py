"""Draws cases of a family until one fails, and makes that small."""

from __future__ import annotations

import argparse
import time
import traceback

from tests.outsiders.families import FAMILIES, draw_case, shrunk, told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--family", choices=sorted(FAMILIES), action="append")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", type=int, default=1, help="go on until so many have failed")
    parser.add_argument("--minutes", type=float, default=1e9)
    said = parser.parse_args()
    failed, since = 0, time.monotonic()
    for number in range(said.seed, said.seed + said.cases):
        for family in said.family or sorted(FAMILIES):
            drawn = draw_case(family, number)
            try:
                drawn.judge()
            except Exception:
                failed += 1
                print(told(shrunk(drawn), traceback.format_exc(limit=-1)), flush=True)
        if failed >= said.failures or time.monotonic() - since > said.minutes * 60:
            break
    print(
        f"{number - said.seed + 1} cases of each family, {failed} failed, {time.monotonic() - since:.0f} s", flush=True
    )


if __name__ == "__main__":
    main()
