"""The codes of groups in their order, against sorted lists: few equal ones and many, in blocks that split and merge."""

from __future__ import annotations

from bisect import insort

import numpy as np
import pytest

from watersmeet.operators.continuous.aggregates.contract import Cells
from watersmeet.operators.continuous.aggregates.percentiles import RankedRows
from watersmeet.operators.kernels.ranked import AT, BEFORE, BLOCKS, BOUND, DIRECTORY, ENTRY, ROWS, SIZE, START

CELLS = 1_500
Held = list[list[int]]


def changed(rng: np.random.Generator, held: Held, span: int, leaving: float) -> tuple[Cells, np.ndarray, list[int]]:
    """Cells of a few changes each; of each the smallest code of its group afterwards, 0 if there is none."""
    groups, diffs, codes, ends, firsts = [], [], [], [], []
    for _ in range(CELLS):
        group = int(rng.integers(len(held)))
        for _ in range(int(rng.integers(1, 4))):
            goes = bool(held[group]) and rng.random() < leaving
            code = held[group].pop(int(rng.integers(len(held[group])))) if goes else int(rng.integers(-span, span))
            if not goes:
                insort(held[group], code)
            groups.append(group)
            diffs.append(-1 if goes else 1)
            codes.append(code)
        ends.append(len(groups))
        firsts.append(held[group][0] if held[group] else 0)
    return Cells(np.array(groups), np.array(diffs), np.array(ends)), np.array(codes), firsts


def codes_of(rows: RankedRows, group: int) -> list[int]:
    """Those of all blocks, which are in order, and begin no lower than they are said to."""
    head, found = rows._groups[group], list[int]()
    for block in range(head[BLOCKS]):
        entry = rows._words[head[DIRECTORY] + ENTRY * block :]
        codes = rows._words[entry[START] : entry[START] + entry[SIZE]].tolist()
        assert codes
        assert not block or found[-1] <= entry[BOUND] <= codes[0]
        assert block != head[AT] or head[BEFORE] == len(found)
        found += codes
    assert len(found) == head[ROWS]
    return found


@pytest.mark.parametrize("span", [2, 40, 10**12])
@pytest.mark.parametrize("groups", [1, 5])
def test_blocks_hold_the_codes_of_their_groups_in_order(groups: int, span: int) -> None:
    rng, rows, held = np.random.default_rng(groups + span), RankedRows(), Held()
    held += [[] for _ in range(groups)]
    rows.grow(groups)
    # Never half of the changes, so that groups grow to several blocks, shrink to few rows and are empty in between.
    for leaving in (0.1, 0.3, 0.8, 0.2, 0.9, 0.95, 0.4):
        cells, codes, firsts = changed(rng, held, span, leaving)
        low, high, sizes = rows.around(cells, cells.diffs, codes, 0.0)
        assert low.tolist() == high.tolist() == firsts
        assert [codes_of(rows, group) for group in range(groups)] == held
        assert sizes[-1] == len(held[cells.groups[-1]])
        rows.rename(lambda codes: 2 * codes)
        held = [[2 * code for code in one] for one in held]
        assert [codes_of(rows, group) for group in range(groups)] == held


def test_places_are_found_wherever_the_last_one_was() -> None:
    rng, rows, held = np.random.default_rng(3), RankedRows(), Held([[]])
    rows.grow(1)
    cells, codes, _ = changed(rng, held, 10**6, 0.2)
    rows.around(cells, cells.diffs, codes, 0.0)
    nothing = Cells(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64))
    for share in (1.0, 0.25, 0.5, 0.0, 0.999, 0.001):
        low, high, _ = rows.around(nothing, nothing.diffs, np.zeros(1, np.int64), share)
        place = (len(held[0]) - 1) * share
        assert (low[0], high[0]) == (held[0][int(place)], held[0][int(place) + (place % 1 > 0)])
