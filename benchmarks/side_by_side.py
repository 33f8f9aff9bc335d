"""Two commits in turns: does a change make anything slower?

python -m benchmarks.side_by_side OLD NEW joins continuous --rounds 3

Each commit is checked out into a folder of its own, every benchmark runs there once to compile its kernels, then both
run in turns, so that what neighbours on the machine do meets both alike. A ratio is given for each figure, the median
over rounds with the lowest and highest; above 1 the new commit is faster. Ratios of figures that are ratios themselves
("x") are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).parents[1]


def figures(tree: Path, benchmark: str) -> dict[str, tuple[str, float]]:
    """Run a benchmark in a tree; the median of every figure, with its unit."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)])}
    subprocess.run(
        [sys.executable, "-m", f"benchmarks.{benchmark}"], cwd=tree, env=env, check=True, stdout=subprocess.DEVNULL
    )
    told = json.loads((tree / "benchmarks" / "results" / f"{benchmark}.json").read_text())
    return {one["name"]: (one["unit"], one["median"]) for one in told["figures"]}


def speed_up(unit: str, old: float, new: float) -> float:
    """Rates grow and times shrink as things get faster."""
    return new / old if unit.endswith("/s") else old / new


def compare(old: Path, new: Path, benchmark: str, rounds: int) -> dict[str, list[float]]:
    for tree in (old, new):
        figures(tree, benchmark)
    ratios: dict[str, list[float]] = {}
    for number in range(rounds):
        # Who goes first changes: a machine that warms up or cools down favours neither.
        trees = (old, new) if number % 2 == 0 else (new, old)
        found = {tree: figures(tree, benchmark) for tree in trees}
        for name, (unit, before) in found[old].items():
            if unit != "x" and name in found[new]:
                ratios.setdefault(name, []).append(speed_up(unit, before, found[new][name][1]))
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmarks of two commits, in turns.")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("benchmarks", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trees = {name: Path(folder) / name for name in ("old", "new")}
        for name, tree in trees.items():
            subprocess.run(["git", "clone", "--quiet", str(TOP), str(tree)], check=True)
            subprocess.run(["git", "-C", str(tree), "checkout", "--quiet", getattr(asked, name)], check=True)
        for benchmark in asked.benchmarks:
            for figure, ratios in compare(trees["old"], trees["new"], benchmark, asked.rounds).items():
                low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
                slower = "   SLOWER" if middle < 0.95 else ""
                print(f"{benchmark}: {figure}: {middle:.2f}x ({low:.2f} to {high:.2f}){slower}", flush=True)


if __name__ == "__main__":
    main()
