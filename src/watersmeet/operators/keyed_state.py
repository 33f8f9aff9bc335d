"""What an operator holds as rows with keys, so that any number of operators of the same plan can hold it between them.

`operator.keyed_state(key)` gives it, `operator.take_over(state)` brings a fresh operator there. In between, `split` and
`merge` (repartition.py) are functions of such states alone, at rest as well as live:

    rows       go where their keys are placed (kernels/spread), as new rows of the same key do
    copies     rows of streams that are copied: every part has them; merged, they are those of the first
    counters   stay with the first part; merged, they come together as the table of metrics says of buckets
    totals     stay with the first part; merged, they are added up
    latest     every part has them; merged, the latest of all counts: time, and how far was answered
    earliest   the same with the earliest of all: when a stream began
    whole      of an operator whose state does not divide: one part holds it, the others nothing

Parts that are merged have come equally far in time, as after a batch. Numbers that only tell rows apart, or their order
within a key, are given anew where parts are taken over (`NumberedAnew`): those of several parts mean different rows.
What only follows from other state is not here; who takes over works it out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.operators.counters import Counters
from watersmeet.operators.saving import Saved, load_state, state_of

Codes = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]
DIVIDED = ("rows", "copies", "counters", "totals", "latest", "earliest")
NO_COLUMNS = pa.RecordBatch.from_arrays([], [])


@dataclass(frozen=True)
class KeyedRows:
    """Rows, each with the code of its key, which of several merged parts it comes from, numbers of the operator's own
    (times, deaths, serials, …), and columns of the query, if there are any."""

    STATE: ClassVar = ("keys", "origins", "numbers", "data")

    keys: Codes
    origins: Codes
    numbers: dict[str, Numbers]
    data: pa.RecordBatch

    @staticmethod
    def of(keys: Codes, data: pa.RecordBatch = NO_COLUMNS, **numbers: Numbers) -> KeyedRows:
        return KeyedRows(keys, np.zeros(keys.size, np.int64), numbers, data)

    def __len__(self) -> int:
        return int(self.keys.size)

    def take(self, positions: npt.NDArray[np.int64]) -> KeyedRows:
        data = self.data.take(pa.array(positions)) if self.data.num_columns else self.data
        numbers = {name: values[positions] for name, values in self.numbers.items()}
        return KeyedRows(self.keys[positions], self.origins[positions], numbers, data)

    def sorted_by(self, *names: str) -> KeyedRows:
        """By these numbers, the first counting most; equal ones as they are."""
        order = np.lexsort([self.numbers[name] for name in reversed(names)])
        return self if bool((order[1:] > order[:-1]).all()) else self.take(order)

    def with_order(self) -> KeyedRows:
        """Rows by their numbers in `order`, part after part, which become those from 0: of one key all are of one
        part."""
        rows = self.take(np.lexsort((self.numbers["order"], self.origins)))
        return replace(rows, numbers={**rows.numbers, "order": np.arange(len(rows))})


@dataclass
class KeyedState:
    STATE: ClassVar = ("rows", "copies", "counters", "totals", "latest", "earliest", "whole", "whole_rows")
    ITEMS: ClassVar = {"rows": KeyedRows, "copies": KeyedRows, "counters": Counters}

    rows: dict[str, KeyedRows] = field(default_factory=dict)
    copies: dict[str, KeyedRows] = field(default_factory=dict)
    counters: dict[str, Counters] = field(default_factory=dict)
    totals: dict[str, Any] = field(default_factory=dict)
    latest: dict[str, Any] = field(default_factory=dict)
    earliest: dict[str, Any] = field(default_factory=dict)
    whole: dict[str, Any] = field(default_factory=dict)
    whole_rows: int = 0  # how many rows the operator holds whose state is whole

    def inside(self, name: str) -> KeyedState:
        """What is said of a part of the operator; what is put into it while it is new is not in this one."""
        begins = f"{name}."
        part = KeyedState()
        for kind in DIVIDED:
            values: dict[str, Any] = getattr(self, kind)
            below = {word.removeprefix(begins): value for word, value in values.items() if word.startswith(begins)}
            getattr(part, kind).update(below)
        return part

    def put(self, name: str, part: KeyedState) -> None:
        """Take up what a part of the operator says."""
        for kind in DIVIDED:
            getattr(self, kind).update({f"{name}.{word}": value for word, value in getattr(part, kind).items()})

    def saved(self) -> Saved:
        """As named arrays, to be written down."""
        return state_of(self)

    @staticmethod
    def read(saved: Saved) -> KeyedState:
        state = KeyedState()
        load_state(state, saved)
        for kind in (*DIVIDED, "whole"):
            own: dict[str, Any] = getattr(state, kind)
            setattr(state, kind, {_unquoted(word): value for word, value in own.items()})
        return state


def _unquoted(word: str) -> str:
    """A name as it was before `saving.word_of` made it part of another."""
    return str(json.loads(word)) if word.startswith('"') else word


# ---- numbers of rows ------------------------------------------------------------------------------------------------

PARTS_ABOVE = 48  # bits of a number; those of rows are counts


class NumberedAnew:
    """Numbers from 0 for rows that several parts know by numbers of their own: in the order of their times, at equal
    times in that of their parts, then as before."""

    def __init__(self, *tables: KeyedRows) -> None:
        """tables: what is held of the rows, with `times` and `serials`; some may be in several."""
        nothing = np.empty(0, np.int64)
        known = np.concatenate([nothing, *(distinguished(rows.origins, rows.numbers["serials"]) for rows in tables)])
        self._known, first = np.unique(known, return_index=True)
        times = np.concatenate([nothing, *(rows.numbers["times"] for rows in tables)])[first]
        self._new = np.empty(times.size, np.int64)
        self._new[np.lexsort((self._known, times))] = np.arange(times.size)

    @property
    def next(self) -> int:
        """The first number that is free."""
        return int(self._new.size)

    def of(self, rows: KeyedRows, name: str = "serials") -> KeyedRows:
        """Rows with the new numbers in the place of the old; -1 where nobody speaks of a row any more."""
        return replace(rows, numbers={**rows.numbers, name: self.numbers(rows.origins, rows.numbers[name])})

    def numbers(self, origins: Codes, old: Codes) -> Codes:
        if self._known.size == 0:
            return np.full(old.size, -1, np.int64)
        asked = distinguished(origins, old)
        found = np.minimum(np.searchsorted(self._known, asked), self._known.size - 1)
        return np.where(self._known[found] == asked, self._new[found], -1)


def distinguished(origins: Codes, numbers: Codes) -> Codes:
    """Numbers that tell rows of several parts apart."""
    return (origins << PARTS_ABOVE) | numbers


def keys_by_number(known: Codes, keys: Codes) -> Callable[[Codes], Codes]:
    """The keys of rows that are known by numbers; where a number is not known, the number itself, so that all that is
    said of it lies together."""
    order = np.argsort(known)

    def looked_up(numbers: Codes) -> Codes:
        if known.size == 0:
            return numbers
        found = order[np.minimum(np.searchsorted(known, numbers, sorter=order), known.size - 1)]
        return np.where(known[found] == numbers, keys[found], numbers)

    return looked_up
