"""FROM with an outer, semi or anti join in an answer that changes: what the relational operator gives, at every
instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from watersmeet.operators.continuous.alone import Alone
from watersmeet.operators.continuous.delta import Delta, merged
from watersmeet.operators.continuous.from_many import FromMany
from watersmeet.operators.continuous.lives import Lives
from watersmeet.operators.continuous.node import Divides, Node, shown_keys
from watersmeet.operators.evaluate import evaluate
from watersmeet.operators.keyed_state import KeyedRows, KeyedState, keys_by_number
from watersmeet.operators.partition_key import KeysOf, PartitionKey, keys_in
from watersmeet.physical.hidden import member_column
from watersmeet.physical.nodes import Columns
from watersmeet.plan.expressions import Column


class FromMatched(Divides):
    """Combinations, and beside them the rows that have none."""

    STATE: tuple[str, ...] = ("combinations", "alone")

    netted = False

    def __init__(
        self,
        combinations: FromMany,
        alone: Mapping[str, Alone],
        columns: Columns,
        *,
        pairs: bool,
        otherwise: Sequence[FromMany] = (),
    ) -> None:
        """combinations: with the serial numbers of the members that may stand alone. pairs: whether they are given,
        too. otherwise: more of them, of the same inputs, if they are not."""
        self.combinations = combinations
        self.otherwise = list(otherwise)
        if self.otherwise:
            self.STATE = (*FromMatched.STATE, "otherwise")
        self.alone = dict(alone)
        self.columns = columns
        self.schema = pa.schema([pa.field(name, e.type) for name, e in columns])
        self.pairs = pairs
        self._again: dict[str, KeyedRows] = {}  # what it held before another took over, by input

    @property
    def complete(self) -> int:
        return self.combinations.complete

    @property
    def held_rows(self) -> int:
        return sum(one.held_rows for one in self.alone.values())

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self.alone.values())

    def inputs(self) -> Iterator[Node]:
        yield self.combinations
        yield from self.otherwise

    def next_event(self) -> int:
        found = (one.next_event() for one in self.inputs())
        return min(*found, *(one.next_death() for one in self.alone.values()))

    def take(self, until: int) -> Delta:
        # In turn: what the first takes of the inputs is told to the others.
        found = merged([one.take(until) for one in (self.combinations, *self.otherwise)], self.combinations.schema)
        deltas = []
        again, self._again = self._again, {}
        for alias, alone in self.alone.items():
            if alias in again:
                alone.enter_again(self.combinations.anew[alias].of(again[alias]), until - 1)
            elif (lives := alone.source.taken) is not None:
                alone.enter(self._extended(alias, lives), lives)
            deltas.append(alone.changes(self.complete, found, member_column(alias)))
        if self.pairs:
            # Numbers by threes, so that no row that stands alone has the same.
            shown = found.data.select(self.schema.names)
            deltas.append(Delta(shown, found.instants, found.diffs, 3 * found.order))
        return merged(deltas, self.schema)

    # ---- how its state divides --------------------------------------------------------------------------------------

    @property
    def cared_for(self) -> Sequence[Divides]:
        return [self.combinations]

    def undivided(self, key: PartitionKey) -> str | None:
        if self.otherwise:
            return "rows meet partners of other keys, too"
        held = (alias for alias in self._held_here if self._key_of(alias, key) is None)
        return next((f"the rows of {alias} that have no partner do not tell their key" for alias in held), None)

    @property
    def _held_here(self) -> list[str]:
        """The inputs whose rows do not come of what is held below."""
        return [alias for alias, alone in self.alone.items() if not alone.source.gives_again]

    def _key_of(self, alias: str, key: PartitionKey) -> str | None:
        return min(self._shown_keys(alias, key), default=None)

    def _shown_keys(self, alias: str, key: PartitionKey) -> frozenset[str]:
        own = tuple((name, e) for name, e in self.columns if isinstance(e, Column) and e.stream == alias)
        return shown_keys(own, self.combinations.sources[alias].key_columns(key))

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        """Where either side may be missing, no column has the key of every row."""
        return self._shown_keys(next(iter(self.alone)), key) if len(self.alone) == 1 else frozenset()

    def divided(self, key: PartitionKey) -> KeyedState:
        rows = {alias: self.alone[alias].keyed(keys_in(self._key_of(alias, key))) for alias in self._held_here}
        state = KeyedState(rows)
        state.put("combinations", self.combinations.divided(key, self._keys_of_members(rows)))
        return state

    def _keys_of_members(self, rows: Mapping[str, KeyedRows]) -> KeysOf | None:
        """A combination has the key of its member that may stand alone."""
        for alias, held in rows.items():
            keys, member = keys_by_number(held.numbers["serials"], held.keys), member_column(alias)
            return lambda data: keys(data.column(member).to_numpy(zero_copy_only=False))
        return None

    def take_rows_over(self, state: KeyedState) -> None:
        self._again = {alias: state.rows[alias] for alias in self._held_here}
        self.combinations.take_rows_over(state.inside("combinations"), **self._again)

    def _extended(self, alias: str, lives: Lives) -> pa.RecordBatch:
        """Rows of one input as they stand in the answer without a partner."""
        rows = lives.rows

        def column(asked: Column) -> pa.Array:
            return rows.data.column(asked.name) if asked.stream == alias else pa.nulls(len(rows), asked.type)

        def times() -> pa.Array:
            return pa.array(rows.times, pa.timestamp("us"))

        arrays = [evaluate(e, column, len(rows), times) for _, e in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
