"""A sorted dictionary of text, bytes or long decimals: every value has a label, an int64 in the order of the values.

Labels lie apart, so that new values find room between old ones; if the room between two is used up, all labels are
given anew, evenly. A value is forgotten once no row has it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.operators.codes import Mask
from watersmeet.operators.continuous.aggregates.contract import Int64s, frozen
from watersmeet.operators.continuous.aggregates.ordered_bytes import from_bytes, slices, to_bytes
from watersmeet.operators.continuous.labels import even_labels, labels_between
from watersmeet.operators.kernels.sorted_bytes import find_sorted

FEW = 1024


class Dictionary:
    """The distinct values that rows have, in order, with their labels and how many rows have each."""

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type
        self._values = pa.array([], pa.large_binary())
        self._labels: Int64s = np.empty(0, np.int64)
        self._rows: Int64s = np.empty(0, np.int64)

    def enter(self, values: pa.Array, lives: Int64s) -> tuple[Int64s, Callable[[Int64s], Int64s] | None]:
        """The labels of a batch; if labels were given anew, the function from the old ones to the new."""
        encoded = to_bytes(values).dictionary_encode()
        if not len(encoded.dictionary):
            return frozen(np.zeros(len(values), np.int64)), None
        order = pc.sort_indices(encoded.dictionary)
        places, renaming = self._place(encoded.dictionary.take(order))
        place_of = np.empty_like(places)
        place_of[order.to_numpy(zero_copy_only=False)] = places
        batch = place_of[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        self._rows += np.bincount(batch, weights=lives, minlength=self._rows.size).astype(np.int64)
        return frozen(self._labels[batch]), renaming

    def _place(self, distinct: pa.Array) -> tuple[Int64s, Callable[[Int64s], Int64s] | None]:
        """Where sorted values stand in the dictionary, once those that are new have been put in."""
        places = np.empty(len(distinct), np.int64)
        found = np.empty(len(distinct), np.bool_)
        find_sorted(*slices(self._values), *slices(distinct), places, found)
        if found.all():
            return places, None
        renaming = self._put_in(distinct.filter(pa.array(~found)), places[~found])
        return places + np.cumsum(~found) - ~found, renaming

    def _put_in(self, fresh: pa.Array, before: Int64s) -> Callable[[Int64s], Int64s] | None:
        size = len(self._values)
        order = np.insert(np.arange(size), before, np.arange(size, size + len(fresh)))
        self._values = pa.concat_arrays([self._values, fresh]).take(pa.array(order))
        self._rows = np.insert(self._rows, before, 0)
        labels = labels_between(self._labels, before)
        if labels is not None:
            self._labels = np.insert(self._labels, before, labels)
            return None
        old, self._labels = self._labels, even_labels(len(self._values))
        return partial(renamed, old, self._labels[order < size])

    def decode(self, codes: Int64s, valid: Mask) -> pa.Array:
        places = np.searchsorted(self._labels, np.where(valid, codes, 0))
        return from_bytes(self._values.take(pa.array(places, mask=~valid)), self._type)

    def tidy(self) -> None:
        """Forget values without rows, as soon as they are the greater part."""
        used = self._rows > 0
        if self._rows.size > FEW and 2 * np.count_nonzero(used) < self._rows.size:
            self._values = self._values.filter(pa.array(used))
            self._labels, self._rows = self._labels[used], self._rows[used]

    @property
    def nbytes(self) -> int:
        return int(self._values.nbytes) + self._labels.nbytes + self._rows.nbytes


def renamed(old: Int64s, new: Int64s, labels: Int64s) -> Int64s:
    """The new names of labels; what was no label becomes anything."""
    return new[np.minimum(np.searchsorted(old, labels), new.size - 1)]
