"""A sorted dictionary of text, bytes or long decimals: every value has a label, an int64 in the order of the values.

New values find room between the labels of old ones; if it is used up, all labels are given anew. Values lie in a few
sorted runs, merged as they grow, so that a small batch does not move a large dictionary. A value that no row has any
more is forgotten when its run is merged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.operators.codes import Mask
from watersmeet.operators.continuous.aggregates.contract import Int64s, frozen
from watersmeet.operators.continuous.aggregates.labels import LIMIT, even_labels, labels_between, renamed
from watersmeet.operators.continuous.aggregates.ordered_bytes import from_bytes, slices, to_bytes
from watersmeet.operators.kernels.sorted_bytes import find_sorted

# So few values are not worth tidying, however many are unused.
FEW = 1024


@dataclass
class ValueRun:
    """Values in order, with their labels and how many rows have each."""

    STATE: ClassVar = ("values", "labels", "rows")

    values: pa.Array
    labels: Int64s
    rows: Int64s

    def find(self, wanted: pa.Array) -> tuple[Int64s, Mask]:
        """The places of sorted values, or where they would stand, and which are there."""
        places, found = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.bool_)
        find_sorted(*slices(self.values), *slices(wanted), places, found)
        return places, found

    def used(self) -> ValueRun:
        """Without the values that no row has."""
        used = self.rows > 0
        return self if used.all() else ValueRun(self.values.filter(pa.array(used)), self.labels[used], self.rows[used])

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes) + self.labels.nbytes + self.rows.nbytes


def merged(runs: list[ValueRun]) -> ValueRun:
    labels = np.concatenate([run.labels for run in runs])
    order = np.argsort(labels, kind="stable")
    values = pa.concat_arrays([run.values for run in runs]).take(pa.array(order))
    return ValueRun(values, labels[order], np.concatenate([run.rows for run in runs])[order])


class Dictionary:
    """The distinct values that rows have."""

    STATE = ("_runs",)
    ITEMS: ClassVar = {"_runs": ValueRun}

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type
        self._runs: list[ValueRun] = []

    def enter(self, values: pa.Array, lives: Int64s) -> tuple[Int64s, Callable[[Int64s], Int64s] | None]:
        """The labels of a batch; if labels were given anew, the function from the old ones to the new."""
        encoded = to_bytes(values).dictionary_encode()
        size = len(encoded.dictionary)
        if not size:
            return frozen(np.zeros(len(values), np.int64)), None
        order = pc.sort_indices(encoded.dictionary)
        rank = np.empty(size, np.int64)
        rank[order.to_numpy(zero_copy_only=False)] = np.arange(size)
        # NULLs stand for any value here, and count for nothing, as their `lives` are 0.
        batch = rank[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        rows = np.bincount(batch, weights=lives, minlength=size).astype(np.int64)
        labels, renaming = self._label(encoded.dictionary.take(order), rows)
        return frozen(labels[batch]), renaming

    def _label(self, distinct: pa.Array, rows: Int64s) -> tuple[Int64s, Callable[[Int64s], Int64s] | None]:
        """The labels of sorted values, which so many more rows have; those that are new are put in."""
        size = len(distinct)
        labels, known = np.empty(size, np.int64), np.zeros(size, np.bool_)
        low, high = np.full(size, -LIMIT, np.int64), np.full(size, LIMIT, np.int64)
        for run in self._runs:
            places, found = run.find(distinct)
            # Where a value would be the first or last, the label read here is a wrong one and not taken.
            low = np.maximum(low, np.where(places > 0, run.labels[places - 1], -LIMIT))
            last = run.labels.size - 1
            high = np.minimum(high, np.where(places <= last, run.labels[np.minimum(places, last)], LIMIT))
            labels[found] = run.labels[places[found]]
            run.rows[places[found]] += rows[found]
            known |= found
        if known.all():
            return labels, None
        fresh = ~known
        made = labels_between(low[fresh], high[fresh])
        new = distinct.filter(pa.array(fresh))
        if made is not None:
            self._runs.append(ValueRun(new, made, rows[fresh]))
            labels[fresh] = made
            return labels, None
        return self._relabel(labels, fresh, new, low[fresh], rows[fresh])

    def _relabel(
        self, labels: Int64s, fresh: Mask, new: pa.Array, after: Int64s, rows: Int64s
    ) -> tuple[Int64s, Callable[[Int64s], Int64s]]:
        """Give all labels anew; `new` values come right after the labels `after`."""
        old = merged(self._runs)
        order = np.argsort(np.concatenate([old.labels, after]), kind="stable")  # a label before what comes after it
        values = pa.concat_arrays([old.values, new]).take(pa.array(order))
        even = even_labels(order.size)
        self._runs = [ValueRun(values, even, np.concatenate([old.rows, rows])[order])]
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        renaming = partial(renamed, old.labels, even[place[: len(old.values)]])
        labels = renaming(labels)
        labels[fresh] = even[place[len(old.values) :]]
        return labels, renaming

    def decode(self, codes: Int64s, valid: Mask) -> pa.Array:
        """The values of labels, run by run; the same few labels mostly come again and again."""
        labels, inverse = np.unique(codes[valid], return_inverse=True)
        where = np.empty(labels.size, np.int64)
        pieces, taken = [pa.array([], pa.large_binary())], 0
        for run in self._runs:
            places = np.minimum(np.searchsorted(run.labels, labels), run.labels.size - 1)
            here = np.flatnonzero(run.labels[places] == labels)
            pieces.append(run.values.take(pa.array(places[here])))
            where[here] = np.arange(taken, taken + here.size)
            taken += here.size
        indices = np.zeros(codes.size, np.int64)
        indices[valid] = where[inverse]
        return from_bytes(pa.concat_arrays(pieces).take(pa.array(indices, mask=~valid)), self._type)

    def tidy(self) -> None:
        """Merge runs of similar size, or all if most values have no row; none of their labels may be in use then."""
        runs = self._runs
        size, used = sum(run.rows.size for run in runs), sum(int(np.count_nonzero(run.rows)) for run in runs)
        if size > FEW and 2 * used < size:
            runs = [merged([run.used() for run in runs])]
        while len(runs) > 1 and runs[-2].rows.size <= 2 * runs[-1].rows.size:
            runs = [*runs[:-2], merged([runs[-2].used(), runs[-1].used()])]
        self._runs = [run for run in runs if run.rows.size]

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self._runs)
