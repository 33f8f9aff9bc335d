"""Two commits in turns: does a change make anything slower?

    python -m benchmarks.side_by_side [OLD] [NEW] [--rounds 15]       the guard: `make bench-check`
    python -m benchmarks.side_by_side OLD NEW joins continuous        whole benchmarks, each of its own commit

The guard is `main~1` against what is checked out here, if nothing else is said. Each commit has a folder of its own (a
worktree) and a process that runs `benchmarks/probes.py` of this commit on that folder's engine, so that both are
measured by the same code. Probes run in turns, the one and the other first, by the time of the processor: what
neighbours do meets both alike and most of it is not counted.

A probe has lost if the ratio of the medians is above 1.1 and its bootstrap interval (99 %, over rounds, old and new of
a round together) lies above 1. Such a probe is measured once more, with as many rounds, and fails the guard only if
both times say so: what a busy minute does to one probe is not told of the change.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TOP = Path(__file__).parents[1]
PROBES = Path(__file__).with_name("probes.py")
LOSS, CERTAINTY, RESAMPLES = 1.1, 0.99, 2_000
HERE = "."  # what is checked out, changes that are not committed included


# ---- the judgement ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """How much longer the new takes: the ratio of medians, and where it lies with certainty."""

    ratio: float
    low: float
    high: float

    @property
    def lost(self) -> bool:
        return self.ratio > LOSS and self.low > 1.0

    def __str__(self) -> str:
        return f"{self.ratio:.3f} times as long ({self.low:.3f} to {self.high:.3f})"


def judged(old: Sequence[float], new: Sequence[float]) -> Verdict:
    both = np.array([old, new])
    picked = np.random.default_rng(1).integers(0, both.shape[1], (RESAMPLES, both.shape[1]))
    medians = np.median(both[:, picked], axis=2)
    low, high = np.quantile(medians[1] / medians[0], [(1 - CERTAINTY) / 2, (1 + CERTAINTY) / 2])
    return Verdict(float(statistics.median(new) / statistics.median(old)), float(low), float(high))


# ---- the guard -------------------------------------------------------------------------------------------------------


class Prober:
    """A process that measures probes with the engine of a tree: a name goes in, seconds come out."""

    def __init__(self, tree: Path, probes: Path) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "src"), str(tree)])}
        self.process = subprocess.Popen(
            [sys.executable, str(probes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tree, env=env
        )

    def names(self) -> list[str]:
        return list(json.loads(self._line()))

    def seconds(self, probe: str) -> float:
        assert self.process.stdin is not None
        print(probe, file=self.process.stdin, flush=True)
        return float(json.loads(self._line()))

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the probes of {self.process.args!r} ended with {self.process.wait()}")
        return line

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60.0)


def measured(old: Prober, new: Prober, probe: str, rounds: int) -> Verdict:
    found: dict[Prober, list[float]] = {old: [], new: []}
    for number in range(rounds):
        for one in (old, new) if number % 2 == 0 else (new, old):
            found[one].append(one.seconds(probe))
    return judged(found[old], found[new])


def guard(trees: tuple[Path, Path], rounds: int, probes: Path = PROBES) -> list[str]:
    """The probes that have lost."""
    lost = []
    with ExitStack() as closing:
        old, new = (Prober(tree, probes) for tree in trees)
        for one in (old, new):
            closing.callback(one.close)
        known = set(old.names())
        for probe in new.names():
            if probe not in known:
                continue
            for one in (old, new):
                one.seconds(probe)  # compiles its kernels
            verdict = measured(old, new, probe, rounds)
            if verdict.lost:
                print(f"{probe}: {verdict}: once more", flush=True)
                verdict = measured(old, new, probe, rounds)
            print(f"{probe}: {verdict}{'   LOST' if verdict.lost else ''}", flush=True)
            lost += [probe] * verdict.lost
    return lost


# ---- whole benchmarks ------------------------------------------------------------------------------------------------


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
    """Ratios of each figure that is none itself, above 1 where the new is faster."""
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


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    if commit == HERE:
        yield TOP
        return
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(TOP), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", f"{folder}/tree", commit], check=True)
        try:
            yield Path(folder) / "tree"
        finally:
            subprocess.run([*git, "remove", "--force", f"{folder}/tree"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", nargs="?", default="main~1")
    parser.add_argument("new", nargs="?", default=HERE)
    parser.add_argument("benchmarks", nargs="*", help="whole benchmarks instead of the guard")
    parser.add_argument("--rounds", type=int)
    asked = parser.parse_args()
    with checked_out(asked.old) as old, checked_out(asked.new) as new:
        if not asked.benchmarks:
            lost = guard((old, new), asked.rounds or 15)
            if lost:
                raise SystemExit(f"slower than {asked.old} by more than a tenth: {'; '.join(lost)}")
        for benchmark in asked.benchmarks:
            for name, ratios in compare(old, new, benchmark, asked.rounds or 3).items():
                low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
                slower = "   SLOWER" if middle < 0.95 else ""
                print(f"{benchmark}: {name}: {middle:.2f}x ({low:.2f} to {high:.2f}){slower}", flush=True)


if __name__ == "__main__":
    main()
