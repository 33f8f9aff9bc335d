"""Of rows that as-of joins look up, those that a restart would miss."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.codes import Mask, identities
from watersmeet.operators.contract import Positions, Rows
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.operators.outer.changes_of_table import ChangesOfTable
from watersmeet.physical.nodes import LastOfEach


def last_of_each(kept: LastOfEach, rows: Rows, since_us: int, *, deletions: bool) -> Mask:
    """Which rows are not before an instant, or the last of their key before it. deletions: whether one that deletes its
    key counts; it must where rows before it may be kept elsewhere, which would come to life again."""
    needed: Mask = rows.times >= since_us
    candidates = np.flatnonzero(~needed & _is_asked_for(kept, rows))
    last = candidates[_last(kept, rows.take(candidates))]
    if not deletions:
        last = last[~ChangesOfTable("", kept.op).deletes(rows.data.take(last))]
    needed[last] = True
    return needed


def _is_asked_for(kept: LastOfEach, rows: Rows) -> Mask:
    asked = np.ones(len(rows), np.bool_)
    for condition in kept.only:
        asked &= evaluate_predicate(condition, lambda column: rows.data.column(column.name), len(rows))
    return asked


def _last(kept: LastOfEach, rows: Rows) -> Positions:
    if len(rows) == 0:
        return np.empty(0, np.int64)
    columns = [evaluate(key, lambda column: rows.data.column(column.name), len(rows)) for key in kept.keys]
    first, second = identities(columns, len(rows))
    # Stable, so that rows of one time stay in the order in which they came.
    order: Positions = np.lexsort((rows.times, second, first))
    differs = (first[order][1:] != first[order][:-1]) | (second[order][1:] != second[order][:-1])
    ends = np.flatnonzero(np.append(differs, True))
    if kept.versions:
        return order[ends]
    # Which of equal times is the greatest is not looked at here: all of them stay.
    latest = rows.times[order][ends][np.searchsorted(ends, np.arange(order.size))]
    found: Positions = order[rows.times[order] == latest]
    return found
