"""W-GROUP-BY and W-AGGREGATE: a row per group, replaced whenever one of its values changes. Groups are there while they
have rows; what is aggregated without GROUP BY is one group, which is there from the first event on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.model.time import BEGINNING_US
from watersmeet.operators.continuous.aggregates import make_aggregators
from watersmeet.operators.continuous.aggregates.contract import BySlots, Cells, Shares
from watersmeet.operators.continuous.delta import Bools, Delta, Int64s, latest_noticed, merged, no_changes
from watersmeet.operators.continuous.from_one import FromOne
from watersmeet.operators.continuous.grouped_rows import GroupChanges, GroupedRows
from watersmeet.operators.continuous.node import Divides, Node, Unary, keys_below, shown_keys
from watersmeet.operators.continuous.row_ids import RowIds
from watersmeet.operators.continuous.row_table import RowTable
from watersmeet.operators.continuous.shown_rows import ShownRows
from watersmeet.operators.evaluate import evaluate, evaluate_predicate
from watersmeet.operators.few_rows import taken
from watersmeet.operators.kernels import changes as kernel
from watersmeet.operators.keyed_state import KeyedRows, KeyedState
from watersmeet.operators.partition_key import PartitionKey, keys_in
from watersmeet.operators.waiting import Waiting
from watersmeet.plan.expressions import Aggregate, Column, Expression

NOTHING = np.empty(0, np.int64)


class GroupByOperator(Divides, Unary):
    """The child's columns are the keys, then the arguments of the aggregates, as `layout` names them."""

    STATE = ("child", "aggregators", "ids", "key_rows", "counts", "rows")

    def __init__(
        self,
        child: Node,
        keys: int,
        aggregates: Sequence[tuple[Aggregate, str | None]],
        having: Expression | None,
        columns: Sequence[tuple[str, Expression]],
        *,
        fifo: bool,
        final: bool = False,
        begins_with: Sequence[Waiting] = (),
        ends: Sequence[int] = (),
    ) -> None:
        """aggregates: each with the name of its argument column, if it has one. `having` and `columns` are
        expressions over the columns key_0, …, value_0, …. final: a group without rows is not withdrawn, it is
        complete. ends: of such, the keys that tell from when on it is. begins_with: without keys, the streams with
        whose first event the one group begins, to stay."""
        super().__init__(child, pa.schema([pa.field(name, e.type) for name, e in columns]))
        self.keys = keys
        self.final = final
        self.ends = list(ends)
        self.begins_with = list(begins_with)
        self.begun_us = BEGINNING_US  # the first instant at which the one group was there
        self.having = having
        self.columns = list(columns)
        # Rows of two groups may be equal where not all keys are among the columns: then one leaves as the other enters.
        shown = {e.name for _, e in columns if isinstance(e, Column)}
        self.netted = all(f"key_{i}" in shown for i in range(keys))
        # Columns that are equal are held and gathered once.
        first: dict[Expression, str] = {}
        same = {name: first.setdefault(a.args[0], name) for a, name in aggregates if name is not None}
        self.arguments = [None if name is None else same[name] for _, name in aggregates]
        self.aggregators = make_aggregators(
            [(a, argument) for (a, _), argument in zip(aggregates, self.arguments, strict=True)], fifo=fifo
        )
        self.key_fields = [child.schema.field(i) for i in range(keys)]
        self.ids = RowIds()
        self.key_rows = RowTable(pa.schema(self.key_fields))
        self.counts = np.zeros(self.ids.room, np.int64)
        # A column that is a key need not be asked for with every change.
        names = {f"key_{i}": i for i in range(keys)}
        as_keys = [names.get(e.name) if isinstance(e, Column) else None for _, e in columns]
        self.valued = [e for (_, e), key in zip(columns, as_keys, strict=True) if key is None]
        self.rows = ShownRows(self.schema, as_keys, self.ids.room)
        for aggregator in self.aggregators:
            aggregator.grow(self.ids.room)
        self._held: GroupedRows | None = None
        if isinstance(child, FromOne) and child.in_turn:
            child.expiry = self._held = GroupedRows(child.schema, keys, self._groups, self.key_rows, same)
        self._again: Delta | None = None  # what it held before another took over

    @property
    def held_rows(self) -> int:
        return self.ids.live

    @property
    def nbytes(self) -> int:
        own = self.ids.nbytes + self.key_rows.nbytes + self.counts.nbytes + self.rows.nbytes
        return own + sum(aggregator.nbytes for aggregator in self.aggregators)

    @property
    def complete(self) -> int:
        # With the beginning all is known up to it, whoever waits for a row to come in (pipeline = 'ita').
        return self.child.complete if self.begun_us == BEGINNING_US else max(self.child.complete, self.begun_us + 1)

    def take(self, until: int) -> Delta:
        changed = self._changed(until)
        if changed is None:
            return no_changes(self.schema)
        if self.begins_with:
            changed.present[:] = True
        values, shown = self._values(changed)
        silent = np.empty(0, np.bool_)
        if self.final:
            silent = ~changed.present & self._are_over(changed.groups, changed.instants)
        answer = self.rows.replace(
            changed.groups, changed.instants, values, shown, silent, changed.noticed, self.key_rows.get
        )
        # Last, as rows of groups that are gone are withdrawn above.
        self._forget(changed.groups)
        return answer

    def _changed(self, until: int) -> GroupChanges | None:
        child, begins = self.child, self.begins_with and self.begun_us == BEGINNING_US
        if self._held is not None and isinstance(child, FromOne) and not begins and not child.gives_held:
            entered = child.enter(until)
            return self._held.changes(entered.instants, child.complete, self.counts)
        delta = self._since_beginning(self.child.take(until))
        if self._again is not None:
            delta, self._again = replace(self._again, instants=np.full(len(self._again), until - 1)), None
        return self._cells_of(delta) if len(delta) else None

    def _cells_of(self, delta: Delta) -> GroupChanges:
        n = len(delta)
        groups = self._groups(delta.data, n)
        order, ends = np.empty(n, np.int64), np.empty(n, np.int64)
        cells = int(kernel.sort_into_cells(delta.instants, groups, order, ends))
        ends, present = ends[:cells], np.empty(cells, np.bool_)
        kernel.count_cells(order, ends, cells, groups, delta.diffs, self.counts, present)
        starts = np.concatenate([[0], ends[:-1]])
        if bool((order[1:] > order[:-1]).all()):  # as where every instant has one change
            changed = Cells(groups, delta.diffs, ends)
            return GroupChanges(
                changed, groups[starts], delta.instants[starts], present, latest_noticed(delta, order, starts),
                lambda: delta.order, delta.data.column,
            )  # fmt: skip
        changed = Cells(groups[order], delta.diffs[order], ends)
        return GroupChanges(
            changed, changed.groups[starts], delta.instants[order[starts]], present,
            latest_noticed(delta, order, starts), lambda: delta.order[order],
            lambda name: taken(delta.data.column(name), order),
        )  # fmt: skip

    @property
    def held(self) -> GroupedRows | None:
        """The rows of its groups, if it holds them itself."""
        return self._held

    @property
    def gives_held(self) -> bool:
        """Whether what others held is given next."""
        return self._again is not None or (isinstance(self.child, FromOne) and self.child.gives_held)

    # ---- how its state divides --------------------------------------------------------------------------------------

    def undivided(self, key: PartitionKey) -> str | None:
        return None if self.keys else "all rows are one group"

    @property
    def needs_all_again(self) -> bool:
        """What is made of rows that never leave it holds itself, if that does not name rows."""
        return not self._holds_groups

    @property
    def _holds_groups(self) -> bool:
        lost = isinstance(self.child, Divides) and not self.child.gives_all_again
        return lost and all(isinstance(one, BySlots) for one in self.aggregators)

    def divided(self, key: PartitionKey) -> KeyedState:
        if not self._holds_groups:
            return KeyedState()
        groups = np.flatnonzero(self.counts)
        columns = dict(zip((one.name for one in self.key_fields), self.key_rows.get(groups), strict=True))
        numbers = {"counts": self.counts[groups]}
        for place, aggregator in enumerate(self.aggregators):
            assert isinstance(aggregator, BySlots)
            shares = aggregator.shares(groups)
            numbers |= {f"{place}_{name}": values for name, values in shares.numbers.items()}
            columns |= {f"{place}_{name}": values for name, values in shares.columns.items()}
        data = pa.RecordBatch.from_pydict(columns)
        keys_of = keys_in(min(keys_below(self.child, key), default=None))
        return KeyedState({"groups": KeyedRows.of(keys_of(data), data, **numbers)})

    def take_rows_over(self, state: KeyedState) -> None:
        rows = state.rows.get("groups")
        if rows is None:
            return
        # A change of nothing shows the row of a group as it is.
        fields = list(self.child.schema)
        given = [*rows.data.columns[: self.keys], *(pa.nulls(len(rows), one.type) for one in fields[self.keys :])]
        nothing = np.zeros(len(rows), np.int64)
        data = pa.RecordBatch.from_arrays(given, schema=self.child.schema)
        self._again = Delta(data, nothing, nothing, nothing - 1)
        groups = self._groups(data, len(rows))
        self.counts[groups] = rows.numbers["counts"]
        for place, aggregator in enumerate(self.aggregators):
            assert isinstance(aggregator, BySlots)
            aggregator.take_over(groups, _shares_of(rows, f"{place}_"))

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        names = keys_below(self.child, key)
        grouped = frozenset(f"key_{place}" for place, one in enumerate(self.key_fields) if one.name in names)
        return shown_keys(self.columns, grouped)

    def loaded(self) -> None:
        """What was saved had answered for the rows that were given out, so it had begun with them."""
        self.begun_us = self._first_us

    @property
    def _first_us(self) -> int:
        """The first event, if there was any."""
        firsts = [stream.first_us for stream in self.begins_with if stream.first_us is not None]
        return min(firsts, default=BEGINNING_US)

    def _since_beginning(self, delta: Delta) -> Delta:
        """With the first event a change of nothing, so that there is a row from then on."""
        if self.begun_us > BEGINNING_US or self._first_us == BEGINNING_US:
            return delta
        self.begun_us = self._first_us
        nothing = pa.RecordBatch.from_arrays(
            [pa.nulls(1, field.type) for field in delta.data.schema], schema=delta.data.schema
        )
        at = np.array([self.begun_us])
        return merged([Delta(nothing, at, np.zeros(1, np.int64), np.full(1, -1)), delta], delta.data.schema)

    def _groups(self, data: pa.RecordBatch, count: int) -> Int64s:
        """count: the rows, as a batch without columns does not tell."""
        if not self.keys:
            return np.zeros(count, np.int64)
        keys = data.columns[: self.keys]
        groups, new = self.ids.with_new(keys, count)
        self._grow()
        if new.size:
            self.key_rows.put(groups[new], [taken(key, new) for key in keys])
        return groups

    def make_room(self, count: int) -> None:
        """For so many groups that are new."""
        if self.ids.free < count:
            self.ids.make_room(count)
            self._grow()
        self.key_rows.number_up_to(self.ids.room - 1)
        self.key_rows.make_room(count)

    def _grow(self) -> None:
        """Make room for all numbers of groups."""
        room = self.ids.room
        if room > self.counts.size:
            self.counts = np.concatenate([self.counts, np.zeros(room - self.counts.size, np.int64)])
            self.rows.grow(room)
            for aggregator in self.aggregators:
                aggregator.grow(room)

    def _are_over(self, groups: Int64s, instants: Int64s) -> Bools:
        """Whether the windows that groups are of have ended, so that they have lost their rows for good. The end is
        missing where a row is given without a partner, and then another key tells it."""
        over = np.ones(groups.size, np.bool_)
        keys = self.key_rows.get(groups) if self.ends else []
        for place in self.ends:
            ends = keys[place].cast(pa.timestamp("us", keys[place].type.tz)).view(pa.int64()).fill_null(BEGINNING_US)
            over &= instants >= ends.to_numpy(zero_copy_only=False)
        return over

    def name_group(self, error: DataError) -> None:
        if error.group is not None and self.keys:
            keys = ", ".join(str(key[0]) for key in self.key_rows.get(np.array([error.group])))
            error.message = f"{error.message}\nin the group {keys}"

    def _values(self, changed: GroupChanges) -> tuple[list[pa.Array], Bools]:
        """The values of each cell's group after the cell, and whether it is in the answer."""
        values: dict[str, pa.Array] = {}
        columns = {one: changed.column(one) for one in self.arguments if one is not None}
        order = NOTHING if all(isinstance(one, BySlots) for one in self.aggregators) else changed.order()
        for i, (aggregator, argument) in enumerate(zip(self.aggregators, self.arguments, strict=True)):
            argued = None if argument is None else columns[argument]
            try:
                values[f"value_{i}"] = aggregator.apply(changed.cells, argued, order)
            except DataError as error:
                self.name_group(error)
                raise
        groups, present = changed.groups, changed.present
        count = groups.size

        def column(one: Column) -> pa.Array:
            if one.name not in values:
                values.update((f"key_{i}", key) for i, key in enumerate(self.key_rows.get(groups)))
            return values[one.name]

        if self.having is not None:
            present = present & evaluate_predicate(self.having, column, count)
        return [evaluate(e, column, count) for e in self.valued], present

    def _forget(self, touched: Int64s) -> None:
        """Groups without rows lose their number."""
        if not self.keys:
            return
        empty = np.empty(touched.size, np.int64)
        empty = empty[: kernel.empty_groups(touched, self.counts, empty)]
        if empty.size:
            self.key_rows.drop(empty)
            self.ids.forget(empty)


def _shares_of(rows: KeyedRows, begins: str) -> Shares:
    """What is held of one aggregate, whose names begin so."""
    columns = dict(zip(rows.data.schema.names, rows.data.columns, strict=True))
    numbers = {name.removeprefix(begins): one for name, one in rows.numbers.items() if name.startswith(begins)}
    return Shares(numbers, {name.removeprefix(begins): one for name, one in columns.items() if name.startswith(begins)})
