"""What a few new rows do in a GROUP BY, with as few calls as can be: they enter as others leave, and groups show it.

It is the usual way (StreamSource, FromOne, GroupByOperator) over the same state. Whatever is not as it mostly is
(NULLs, rows out of order, more groups than there is room for) goes the usual way, before anything has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.operators.answers import FewAnswers
from watersmeet.operators.continuous.aggregates.contract import OfWords
from watersmeet.operators.continuous.delta import Int64s
from watersmeet.operators.continuous.from_one import FromOne
from watersmeet.operators.continuous.group_by import GroupByOperator
from watersmeet.operators.continuous.grouped_rows import GroupedRows
from watersmeet.operators.continuous.net import Net
from watersmeet.operators.continuous.node import Node
from watersmeet.operators.continuous.sources import StreamSource
from watersmeet.operators.contract import Rows
from watersmeet.operators.few_columns import FewColumns
from watersmeet.operators.few_rows import FEW, cell_of
from watersmeet.operators.kernels import few_groups as kernel
from watersmeet.operators.kernels.memory import writable_address
from watersmeet.operators.payload import FixedColumn, PayloadColumn
from watersmeet.physical.strategy import is_exact
from watersmeet.plan.expressions import Column

# More changes of rows than this go the usual way.
MOST_CHANGES = 4 * FEW
NOTHING = np.empty(0, np.int64)


class FewGroups:
    def __init__(self, groups: GroupByOperator, child: FromOne, source: StreamSource, held: GroupedRows) -> None:
        self._groups, self._child, self._source, self._held = groups, child, source, held
        span_us = source.span_us
        assert span_us is not None
        self._span_us = span_us
        self._columns = [e for _, e in child.columns if isinstance(e, Column)]
        self._given = FewColumns(pa.schema([]))
        self._needed: list[int] = []
        self._read: Int64s | None = None  # of the columns that are given: where it is among them, and its width
        keys = {f"key_{place}": -1 - place for place in range(groups.keys)}
        valued = [e.name for e in groups.valued if isinstance(e, Column)]
        shown = [e.name for _, e in groups.columns if isinstance(e, Column)]
        self._shown = np.array([keys[one] if one in keys else valued.index(one) for one in shown], np.int64)
        # Arrays for the changes of a call; of what aggregates read and write a row each, taken apart once.
        self._changes = np.empty((kernel.CHANGE_FIELDS, MOST_CHANGES), np.int64)
        self._present, self._valid = np.empty(MOST_CHANGES, np.bool_), np.empty(MOST_CHANGES, np.bool_)
        self._argued = np.empty((len(self._columns) - groups.keys, MOST_CHANGES), np.int64)
        self._values = np.zeros((len(valued) + 1, MOST_CHANGES), np.int64)  # the last row says that none is NULL
        changes, argued = _read_only(self._changes), _read_only(self._argued)
        self._of_groups, self._diffs, self._ends = changes[kernel.GROUPS], changes[kernel.DIFFS], changes[kernel.ENDS]
        self._aggregates: list[tuple[OfWords, Int64s, Int64s]] = []
        for place, (aggregator, argument) in enumerate(zip(groups.aggregators, groups.arguments, strict=True)):
            assert isinstance(aggregator, OfWords)
            words = self._diffs if argument is None else argued[_place_of(argument, held) - groups.keys]
            self._aggregates.append((aggregator, words, self._values[valued.index(f"value_{place}")]))
        # What is held in columns, the arrays in which that was when their addresses were written down, and these.
        self._stored = _fixed([*groups.key_rows.columns, *held.columns])
        self._aimed_at: list[npt.NDArray[Any] | None] = [None] * len(self._stored)
        self._places = np.empty((len(self._stored), 2), np.int64)

    def take(self, until: int, schema: pa.Schema) -> FewAnswers | None:
        """The changes before an instant, as an answer of this schema; None if they are to be had the usual way."""
        waiting, groups = self._source.waiting, self._groups
        counts = None if groups.gives_held else waiting.few_before(until, FEW)
        if counts is None or not self._is_ready(sum(counts)):
            return None
        words = np.empty((kernel.FIRST_COLUMN + len(self._columns), sum(counts)), np.int64)
        left = self._gather(waiting.parts, counts, words)
        return None if left is None else self._changed(words, left, until, schema)

    @property
    def expired_rows(self) -> int:
        return self._source.expired_rows

    # ---- rows come --------------------------------------------------------------------------------------------------

    def _gather(self, parts: Sequence[Rows], counts: Sequence[int], words: Int64s) -> list[Rows] | None:
        """Write rows as words; gives what is left of the parts, or None if something is NULL."""
        first, left = 0, []
        for rows, count in zip(parts, counts, strict=True):
            if not count:
                left.append(rows)
                continue
            sources = self._given.addresses(rows)
            if sources is None:
                sources = self._expect(rows)
            if self._read is None or not all(map(sources.item, self._needed)):
                return None
            stays = count < rows.times.size
            others = np.empty(sources.size, np.int64) if stays else NOTHING
            number = self._child.next_number
            kernel.gather(sources, self._read, count, first, number, words, self._given.widths, others)
            first += count
            if stays:
                left.append(self._given.rest(rows, count, others))
        return left

    def _expect(self, rows: Rows) -> Int64s:
        """Rows have these columns from now on."""
        schema = rows.data.schema
        self._given = FewColumns(schema)
        known = all(schema.field(one.name).type == one.type for one in self._columns)
        self._needed = [1 + schema.get_field_index(one.name) for one in self._columns] if known else []
        widths = self._given.widths
        self._read = np.array([(one, widths[one - 1]) for one in self._needed], np.int64) if known else None
        addresses = self._given.addresses(rows)
        assert addresses is not None
        return addresses

    # ---- groups change ----------------------------------------------------------------------------------------------

    def _changed(self, words: Int64s, left: list[Rows], until: int, schema: pa.Schema) -> FewAnswers | None:
        groups, held, keys, ids = self._groups, self._held, self._groups.key_rows, self._groups.ids
        count, columns, tables = words.shape[1], self._places, ids.tables
        leaving, cells, free, end = kernel.enter(
            words, groups.keys, self._span_us, until, columns, *held.tables, groups.counts, *tables, ids.free,
            keys.where, keys.end, self._changes, self._present, self._argued,
        )  # fmt: skip
        if leaving == kernel.TOO_MANY:
            return None
        self._took(words[kernel.TIME], left, until)
        held.came_and_left(count, leaving)
        self._aggregate(count + leaving, cells)
        answer = np.empty((kernel.FIRST_SHOWN + self._shown.size, 2 * cells), np.int64)
        made, number, free, gone = kernel.show(
            cells, self._changes, self._present, self._values, *groups.rows.tables, self._shown, columns, groups.counts,
            *tables[:3], tables[4], free, keys.where, answer,
        )  # fmt: skip
        ids.left_free(free)
        keys.put_and_dropped(end, gone)
        groups.rows.numbered(number)
        return FewAnswers(schema, answer[:, :made])

    def _took(self, times: Int64s, left: list[Rows], until: int) -> None:
        count = times.size
        if count:
            self._source.waiting.gave(times.item(0), times.item(-1), left)
        self._source.took(times + self._span_us, until)
        self._child.entered(count, until)

    def _aggregate(self, changes: int, cells: int) -> None:
        ends, lives = self._ends[:cells], self._diffs[:changes]
        for aggregator, words, values in self._aggregates:
            try:
                aggregator.add(self._of_groups, lives, words, ends, values, self._valid)
            except DataError as error:
                self._groups.name_group(error)
                raise

    # ---- and lie somewhere ------------------------------------------------------------------------------------------

    def _is_ready(self, rows: int) -> bool:
        """Whether no column has NULLs; then there is room for rows, all of which may be of new groups, and what is held
        lies where `_places` says."""
        for column in self._stored:
            if column.valid is not None:
                return False
        self._groups.make_room(rows)
        self._held.make_room(rows)
        for place, column in enumerate(self._stored):
            if column.values is not self._aimed_at[place]:
                self._aimed_at[place] = column.values
                self._places[place] = writable_address(column.values, column.values.dtype), column.width
        return True


def few_groups(root: Node) -> FewGroups | None:
    """Of the root of an answer, if a few rows may take this way through it."""
    groups = root.child if isinstance(root, Net) else root
    if not isinstance(groups, GroupByOperator) or groups.held is None or not groups.netted:
        return None
    child = groups.child
    if not isinstance(child, FromOne) or not isinstance(child.source, StreamSource) or child.predicates:
        return None
    if groups.having is not None or groups.final or not groups.keys or not groups.rows.are_words:
        return None
    if not child.source.span_us or not _are_plain(groups, child):
        return None
    return FewGroups(groups, child, child.source, groups.held)


def _are_plain(groups: GroupByOperator, child: FromOne) -> bool:
    """Whether nothing is computed, and all that is held are numbers and times in words."""
    shown = [e.name for _, e in groups.columns if isinstance(e, Column)]
    values = sorted(one for one in shown if one.startswith("value_"))
    if len(shown) < len(groups.columns) or values != sorted(f"value_{i}" for i in range(len(groups.aggregators))):
        return False
    if not all(isinstance(e, Column) and cell_of(e.type) is not None for _, e in child.columns):
        return False
    if not all(_is_key(field.type) for field in groups.key_fields):
        return False
    kinds = [pa.int64() if one is None else child.schema.field(one).type for one in groups.arguments]
    aggregates = zip(groups.aggregators, kinds, strict=True)
    return all(isinstance(one, OfWords) and one.takes(kind) for one, kind in aggregates)


def _is_key(kind: pa.DataType) -> bool:
    """Whether a value, its sign spread, is its code."""
    return is_exact(kind) and not pa.types.is_floating(kind) and not pa.types.is_unsigned_integer(kind)


def _place_of(argument: str, held: GroupedRows) -> int:
    return int(held.schema.get_field_index(argument))


def _fixed(columns: Sequence[PayloadColumn]) -> list[FixedColumn]:
    fixed = [one for one in columns if isinstance(one, FixedColumn)]
    assert len(fixed) == len(columns)
    return fixed


def _read_only(array: Int64s) -> Int64s:
    view = array.view()
    view.flags.writeable = False
    return view
