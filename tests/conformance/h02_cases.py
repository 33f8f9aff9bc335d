"""Random joins for H02's algorithms: every window form over streams with ties, bursts, silence and unequal rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from tests.conformance.h02_harness import NAMES, Case, equal_keys
from watersmeet.errors import WindowError
from watersmeet.model.windows import (
    Bound,
    Choice,
    Range,
    directed_window,
    pair_window,
    path_window,
    range_bounds,
    single_window,
)
from watersmeet.papers.joins.contract import Int64s
from watersmeet.papers.joins.description import Operator, Predicate

Rng = np.random.Generator
Windows = tuple[tuple[Bound, ...], tuple[Choice, ...]]

MOST_ROWS = {2: 30, 3: 16, 4: 10, 5: 7}
OPERATORS: tuple[Operator, ...] = ("ne", "lt", "le", "gt", "ge")


def size(rng: Rng) -> int:
    return int(rng.integers(0, 10))


def single(rng: Rng, names: str) -> Windows:
    return single_window(names, size(rng), "closed"), ()


def all_pairs(rng: Rng, names: str) -> Windows:
    bounds = [b for u, v in combinations(names, 2) for b in pair_window(u, v, size(rng), "closed")]
    return tuple(bounds), ()


def one_wide_pair(rng: Rng, names: str) -> Windows:
    """As in the experiment of H02 Figure 13: one window for all pairs but one."""
    narrow, wide = int(rng.integers(1, 4)), int(rng.integers(4, 10))
    u, v = sorted(int(i) for i in rng.choice(len(names), 2, replace=False))
    pairs = dict.fromkeys(combinations(names, 2), narrow) | {(names[u], names[v]): wide}
    return tuple(b for (u, v), w in pairs.items() for b in pair_window(u, v, w, "closed")), ()


def some_pairs(rng: Rng, names: str) -> Windows:
    """A random tree, and now and then one more edge."""
    edges = [(names[int(rng.integers(0, i))], names[i]) for i in range(1, len(names))]
    if rng.random() < 0.5:
        u, v = rng.choice(len(names), 2, replace=False)
        edges.append((names[u], names[v]))
    return tuple(b for u, v in edges for b in pair_window(u, v, size(rng), "closed")), ()


def directed(rng: Rng, names: str) -> Windows:
    order = rng.permutation(list(names))
    return tuple(b for u, v in pairwise(order) for b in directed_window(u, v, size(rng), "closed")), ()


def path(rng: Rng, names: str) -> Windows:
    order = [str(name) for name in rng.permutation(list(names))]
    return (), (path_window(order, [size(rng) for _ in order[1:]], "closed"),)


def path_and_pairs(rng: Rng, names: str) -> Windows:
    """A path over some of the streams, the others tied to one of them."""
    order = [str(name) for name in rng.permutation(list(names))]
    cut = int(rng.integers(2, len(names) + 1))
    bounds = [b for name in order[cut:] for b in pair_window(order[0], name, size(rng), "closed")]
    return tuple(bounds), (path_window(order[:cut], [size(rng) for _ in order[1:cut]], "closed"),)


def ranges(rng: Rng, names: str) -> Windows:
    return tuple(b for name in names for b in range_bounds(name, Range(size(rng)), names, "closed")), ()


def gaps(rng: Rng, names: str) -> Windows:
    """Each at least and at most so long after (or before) the first: bounds below zero."""
    bounds = []
    for name in names[1:]:
        least = int(rng.integers(-6, 7))
        most = least + int(rng.integers(0, 9))
        bounds += [Bound(names[0], name, most, "at most"), Bound(name, names[0], -least, "at least")]
    return tuple(bounds), ()


def islands(rng: Rng, names: str) -> Windows:
    """Windows that tie only some of the streams together; the others may be any time apart."""
    cut = int(rng.integers(1, len(names) + 1))
    bounds = [b for u, v in pairwise(names[:cut]) for b in pair_window(u, v, size(rng), "closed")]
    return tuple(bounds), ()


FORMS: dict[str, Callable[[Rng, str], Windows]] = {
    "single": single,
    "all_pairs": all_pairs,
    "one_wide_pair": one_wide_pair,
    "some_pairs": some_pairs,
    "directed": directed,
    "path": path,
    "path_and_pairs": path_and_pairs,
    "ranges": ranges,
    "gaps": gaps,
}
# Rows of these may never be forgotten, which a merge refuses.
WITHOUT_END = {"islands": islands}


def times_of(rng: Rng, rows: int) -> Int64s:
    """Ties, bursts, an even flow, or silence between two parts."""
    kind = rng.integers(0, 4)
    if kind == 0:
        times = rng.integers(0, 12, rows)
    elif kind == 1:  # bursts
        times = rng.choice(rng.integers(0, 20, 4), rows)
    elif kind == 2:
        times = np.cumsum(rng.integers(0, 4, rows))
    else:  # silent for a while
        times = np.where(rng.random(rows) < 0.5, rng.integers(0, 5, rows), rng.integers(12, 20, rows))
    return np.sort(times).astype(np.int64)


def rows_of(rng: Rng, inputs: int) -> list[int]:
    if rng.random() < 0.06:  # rates 1000 : 1
        rows = [1] * inputs
        rows[int(rng.integers(0, inputs))] = 1_000
        return rows
    counts = [int(rng.integers(2, MOST_ROWS[inputs] + 1)) for _ in range(inputs)]
    if rng.random() < 0.05:
        counts[int(rng.integers(0, inputs))] = 0
    return counts


def predicates_of(rng: Rng, inputs: int, *, keyed: bool) -> tuple[Predicate, ...]:
    found: tuple[Predicate, ...] = ()
    if keyed or rng.random() < 0.5:
        found = equal_keys(inputs, closed=rng.random() < 0.5)
    if not found or rng.random() < 0.3:
        u, v = (int(i) for i in rng.choice(inputs, 2, replace=False))
        found = (*found, Predicate(u, 1, OPERATORS[rng.integers(0, len(OPERATORS))], v, 1))
    return found if keyed or rng.random() < 0.9 else ()


@dataclass(frozen=True)
class Random:
    """A random case and the generator that goes on from it."""

    case: Case
    rng: Rng


def random_case(seed: int, form: str, *, keyed: bool, counted: bool = False) -> Random:
    rng = np.random.default_rng([seed, list(FORMS | WITHOUT_END).index(form), keyed])
    inputs = int(rng.integers(2, 6))
    times = tuple(times_of(rng, rows) for rows in rows_of(rng, inputs))
    values = int(rng.choice([1, 1, 1, 2, 3, 8]))
    codes = tuple(np.stack([rng.integers(0, values, t.size), rng.integers(0, 5, t.size)]) for t in times)
    rows = tuple(int(rng.integers(1, 6)) if counted and rng.random() < 0.6 else None for _ in times)
    while True:
        bounds, choices = (FORMS | WITHOUT_END)[form](rng, NAMES[:inputs])
        case = Case(bounds, choices, predicates_of(rng, inputs, keyed=keyed), times, codes, rows, rng.random() < 0.4)
        try:
            case.description  # noqa: B018 - refuses windows that contradict each other
        except WindowError:
            continue
        return Random(case, rng)


def cuts_of(rng: Rng, arrivals: int) -> list[int]:
    return sorted(int(c) for c in rng.integers(0, arrivals + 1, int(rng.integers(0, 5))))
