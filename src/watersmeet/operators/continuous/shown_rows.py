"""The rows that groups show: what a change of a group withdraws, and what it gives instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import identities
from watersmeet.operators.continuous.aggregates.columns import column
from watersmeet.operators.continuous.delta import Bools, Delta, Int64s
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.few_rows import cell_of, fresh, taken, taken_of_all
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.kernels.memory import address, writable_address

MOST_VALUES = 63  # there is a bit for each in a word


class ShownRows:
    """A row for each group that shows one: keys of the group, and values. Two rows of a group are the same if the words
    of their values are.

    Where all values are numbers or times of 64 bits or fewer, they are the words, and nothing else is kept. Otherwise
    the words are identities of the values, which lie beside them.
    """

    STATE = ("_words", "_shown", "_numbers", "_next", "_beside")

    def __init__(self, schema: pa.Schema, keys: Sequence[int | None], room: int) -> None:
        """keys: for each column which key of the group it shows, or None if it is a value."""
        self.schema = schema
        self._keys = keys
        self._types = [field.type for field, key in zip(schema, keys, strict=True) if key is None]
        as_words = len(self._types) <= MOST_VALUES and all(_is_word(kind) for kind in self._types)
        # A word for each value, and one with a bit for each that is NULL; or those of identities.
        self._width = len(self._types) + 1 if as_words else 2
        self._floats = np.zeros(self._width, np.bool_)
        if as_words:
            self._floats[:-1] = [pa.types.is_floating(kind) for kind in self._types]
        self._words: Int64s = np.zeros((room, self._width), np.int64)
        self._shown: Bools = np.zeros(room, np.bool_)
        self._numbers: Int64s = np.zeros(room, np.int64)
        self._next = 0
        values = pa.schema([pa.field(str(place), kind) for place, kind in enumerate(self._types)])
        self._beside = [] if as_words else [RowTable(values)]
        self._scratch: Int64s = np.full(room, -1, np.int64)
        self._some_null = False  # whether any value of a row was ever NULL

    def loaded(self) -> None:
        self._some_null = bool(self._words[:, -1].any())
        self._scratch = np.full(self._shown.size, -1, np.int64)

    @property
    def nbytes(self) -> int:
        own = self._words.nbytes + self._shown.nbytes + self._numbers.nbytes
        return own + sum(rows.nbytes for rows in self._beside)

    def grow(self, room: int) -> None:
        more = room - self._shown.size
        self._words = np.concatenate([self._words, np.zeros((more, self._width), np.int64)])
        self._shown = np.concatenate([self._shown, np.zeros(more, np.bool_)])
        self._numbers = np.concatenate([self._numbers, np.zeros(more, np.int64)])
        self._scratch = np.full(room, -1, np.int64)

    def replace(
        self,
        groups: Int64s,
        instants: Int64s,
        values: Sequence[pa.Array],
        shown: Bools,
        silent: Bools,
        noticed: Int64s | None,
        keys_of: Callable[[Int64s], list[pa.Array]],
    ) -> Delta:
        """What changes. A cell is a group at an instant: the values of its row, whether it is shown (used up here), and
        when it was noticed, if that is told; where it is `silent`, if any is, the row before it is not withdrawn."""
        count = groups.size
        columns = self._words_of(values, count)
        # What is given to the world lies apart from the rest.
        at, out = fresh(2 * count), fresh(5 if self._beside else 3 if noticed is None else 4, 2 * count)
        made = [] if self._beside else [fresh(2 * count) for _ in columns]
        n, self._next = kernel.replace_rows(
            instants, groups, shown, silent, np.array([address(one) for one in columns], np.int64), self._floats,
            self._words, self._shown, self._numbers.reshape(-1, 1), self._scratch, self._next, at, out,
            np.array([writable_address(one) for one in made], np.int64),
        )  # fmt: skip
        of, diffs, entered_as = out[:3, :n]
        if self._beside:
            arrays = self._taken(out[4, :n], groups, values)
            kept = fresh(count)
            self._put_beside(groups, values, kept[: kernel.last_entered(groups, self._shown, self._scratch, kept)])
        else:
            arrays = self._columns_of([one[:n] for one in made])
        keys = keys_of(of) if len(values) < len(self._keys) else []
        rest = iter(arrays)
        arrays = [next(rest) if key is None else keys[key] for key in self._keys]
        data = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return Delta(data, at[:n], diffs, entered_as, None if noticed is None else noticed[out[3, :n]])

    @property
    def are_words(self) -> bool:
        return not self._beside

    @property
    def tables(self) -> tuple[Bools, Int64s, Bools, Int64s, Int64s, int]:
        """What `replace_rows` knows of the rows of all groups, up to the next number."""
        return self._floats, self._words, self._shown, self._numbers.reshape(-1, 1), self._scratch, self._next

    def numbered(self, next_number: int) -> None:
        self._next = next_number

    def _words_of(self, values: Sequence[pa.Array], count: int) -> list[Int64s]:
        """Those of each cell's row, column by column."""
        if self._beside:
            return [one.view(np.int64) for one in identities(values, count)]
        words = [_cells_of(one, count) for one in values]
        self._some_null |= any(one.null_count for one in values)
        if not self._some_null:
            return words
        nulls = np.zeros(count, np.int64)
        for place, one in enumerate(values):
            if one.null_count:
                is_null = one.is_null().to_numpy(zero_copy_only=False)
                words[place] = np.where(is_null, 0, words[place])
                nulls |= is_null.astype(np.int64) << place
        return [*words, nulls]

    def _columns_of(self, words: Sequence[Int64s]) -> list[pa.Array]:
        """The values of changes, of their words."""
        cells = [one.astype(cell_of(kind), copy=False) for kind, one in zip(self._types, words, strict=False)]
        # Those of NULLs come last, if there are any.
        if len(words) > len(cells) and words[-1].any():
            valid = [(words[-1] >> place) & 1 == 0 for place in range(len(cells))]
            return [column(*one) for one in zip(self._types, cells, valid, strict=True)]
        return [
            pa.Array.from_buffers(kind, one.size, [None, pa.py_buffer(one)])
            for kind, one in zip(self._types, cells, strict=True)
        ]

    def _taken(self, places: Int64s, groups: Int64s, values: Sequence[pa.Array]) -> list[pa.Array]:
        """Rows of cells, and at negative places those that groups had before."""
        before = np.flatnonzero(places < 0)
        stored = self._beside[0].get(-1 - places[before])
        positions = places.copy()
        positions[before] = groups.size + np.arange(before.size)
        return [taken_of_all([new, old], positions) for new, old in zip(values, stored, strict=True)]

    def _put_beside(self, groups: Int64s, values: Sequence[pa.Array], kept: Int64s) -> None:
        gone = np.unique(groups[~self._shown[groups]])
        self._beside[0].drop(gone[self._beside[0].holds(gone)])
        self._beside[0].put(groups[kept], [taken(one, kept) for one in values])


def _cells_of(values: pa.Array, count: int) -> Int64s:
    """As words; what stands at NULLs is arbitrary."""
    cell = cell_of(values.type)
    assert cell is not None
    cells = np.frombuffer(values.buffers()[1], cell, count, values.offset * cell.itemsize)
    return cells.astype(np.int64, copy=False)


def _is_word(kind: pa.DataType) -> bool:
    return cell_of(kind) is not None and not (pa.types.is_floating(kind) and kind != pa.float64())
