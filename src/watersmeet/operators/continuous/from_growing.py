"""FROM with an outer, semi or anti join that only grows, over streams that are themselves made by queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.continuous.delta import Delta, in_order, joined, no_changes
from watersmeet.operators.continuous.node import Divides, Node
from watersmeet.operators.continuous.sources import LivesSource
from watersmeet.operators.keyed_state import KeyedState
from watersmeet.operators.outer.asof_join import AsofJoin
from watersmeet.operators.outer.outer_join import OuterJoin
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.physical.hidden import GIVEN_AT
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column


class FromGrowing(Divides):
    """Rows enter the answer at their event times and never leave it."""

    STATE = ("sources", "operator", "_next", "complete")

    netted = False

    def __init__(self, operator: OuterJoin | AsofJoin, sources: Mapping[str, LivesSource], schema: pa.Schema) -> None:
        """operator: gives the columns of the schema, and the event time of each row in a hidden one."""
        # That a row has no partner is certain at an instant, and a change of it, not of one before.
        self.behind_us = 1 if isinstance(operator, OuterJoin) else 0
        self.operator = operator
        self.sources = dict(sources)
        self.schema = schema
        self._next = 0
        self.complete = BEGINNING_US

    @property
    def held_rows(self) -> int:
        return self.operator.kept_rows

    @property
    def nbytes(self) -> int:
        return self.operator.state_bytes

    def inputs(self) -> Iterator[Node]:
        for source in self.sources.values():
            yield from source.inputs()

    def next_event(self) -> int:
        inside = [one.next_event() for one in self.inputs()]
        wake = self.operator.wake_us
        return min([*inside, *([] if wake is None else [wake])], default=FOREVER_US)

    def take(self, until: int) -> Delta:
        found: list[pa.RecordBatch] = []
        for alias, source in self.sources.items():
            lives = source.take(until)
            if lives is not None:
                found += self.operator.push(alias, lives.rows)
        found += self.operator.advance(dict.fromkeys(self.sources, until - self.behind_us))
        self.complete = until
        data = joined(found, self.operator.schema)
        if data.num_rows == 0:
            return no_changes(self.schema)
        instants = data.column(GIVEN_AT).view(pa.int64()).to_numpy(zero_copy_only=False)
        signs = np.ones(instants.size, np.int64)
        order = in_order(instants, signs)
        numbers = np.arange(self._next, self._next + instants.size)
        self._next += instants.size
        return Delta(data.select(self.schema.names).take(pa.array(order)), instants[order], signs, numbers)

    # ---- how its state divides --------------------------------------------------------------------------------------

    @property
    def gives_all_again(self) -> bool:
        """Rows that have entered are not held."""
        return False

    @property
    def needs_all_again(self) -> bool:
        return False

    def _key_inside(self, key: PartitionKey) -> PartitionKey | None:
        """By the aliases of the join; None: an input does not tell its key."""
        codes: dict[str, Code] = {}
        for alias, source in self.sources.items():
            column = min(source.key_columns(key), default=None)
            if column is None:
                return None
            codes[alias] = Code(alias, Column(alias, column, self.operator.inputs[alias].field(column).type))
        return PartitionKey(codes)

    def undivided(self, key: PartitionKey) -> str | None:
        sources = (source.undivided(key) for source in self.sources.values())
        inside = self._key_inside(key)
        if inside is None:
            return "the inputs of a join do not tell their keys"
        return next((why for why in sources if why), None) or self.operator.undivided(inside)

    def key_columns(self, key: PartitionKey) -> frozenset[str]:
        inside = self._key_inside(key)
        return frozenset() if inside is None else self.operator.key_columns(inside) & {*self.schema.names}

    def divided(self, key: PartitionKey) -> KeyedState:
        inside = self._key_inside(key)
        assert inside is not None
        state = KeyedState(latest={"next": self._next, "complete": self.complete})
        for alias, source in self.sources.items():
            state.put(f"sources.{alias}", source.divided(key))
        state.put("operator", self.operator.divided(inside))
        return state

    def take_rows_over(self, state: KeyedState) -> None:
        self._next, self.complete = state.latest["next"], state.latest["complete"]
        for alias, source in self.sources.items():
            source.take_rows_over(state.inside(f"sources.{alias}"))
        self.operator.take_rows_over(state.inside("operator"))
