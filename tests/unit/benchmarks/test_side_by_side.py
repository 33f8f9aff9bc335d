"""When two commits in turns say that something was lost."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.side_by_side import PROBES, guard, judged

ROUNDS = 15


def times(middle, noise, seed):
    return list(middle * (1 + noise * np.random.default_rng(seed).standard_normal(ROUNDS)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("slower", "noise", "lost"),
    [(1.0, 0.03, False), (1.0, 0.1, False), (1.05, 0.03, False), (1.3, 0.03, True), (1.3, 0.08, True)],
)
def test_a_loss_is_told_from_noise(slower, noise, lost, seed):
    assert judged(times(1.0, noise, seed), times(slower, noise, 100 + seed)).lost is lost


def test_what_swings_with_the_machine_meets_both_alike():
    swings = np.linspace(1, 2, ROUNDS)
    assert not judged(list(swings), list(swings * 1.02)).lost
    assert judged(list(swings), list(swings * 1.2)).lost


def test_a_large_ratio_that_may_be_chance_is_none():
    old, new = [1.0] * 8 + [3.0] * 7, [3.0] * 8 + [1.0] * 7
    verdict = judged(old, new)
    assert verdict.ratio > 1.1
    assert not verdict.lost


PROBE = """
import json, sys
from speed import STEPS
print(json.dumps(["same", "changed"]), flush=True)
for line in sys.stdin:
    print(STEPS if "changed" in line else 100, flush=True)
"""


def test_a_slowed_tree_fails_and_an_equal_one_does_not(tmp_path, capsys):
    trees = []
    for name, steps in (("old", 100), ("equal", 100), ("slowed", 125)):
        (tmp_path / name / "src").mkdir(parents=True)
        (tmp_path / name / "src" / "speed.py").write_text(f"STEPS = {steps}\n")
        trees.append(tmp_path / name)
    (tmp_path / "probes.py").write_text(PROBE)
    old, equal, slowed = trees
    assert guard((old, equal), 3, tmp_path / "probes.py") == []
    assert guard((old, slowed), 3, tmp_path / "probes.py") == ["changed"]
    assert "changed: 1.250 times as long (1.250 to 1.250): once more" in capsys.readouterr().out


def test_probes_are_beside_the_guard():
    assert PROBES.exists()
