"""A part of several answers, which is computed once: an operator whose changes more than one ask for.

Each of them asks by itself, up to an instant of its own. The part goes as far as the one that is ahead asks, and what
the others have not asked for yet waits for them. Rows come to it as they come to each of the queries that share it: the
first to bring a piece puts it in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.model.windows import Boundary, Window
from watersmeet.operators.continuous.delta import Delta, joined, no_changes
from watersmeet.operators.continuous.lives import Lives, lifetimes_of
from watersmeet.operators.continuous.node import Node, everything_below
from watersmeet.operators.continuous.pipeline import Continuous
from watersmeet.operators.continuous.sources import JoinSource, Windowed
from watersmeet.operators.contract import Operator, Rows, Wrapper
from watersmeet.operators.waiting import Waiting


class CommonPart:
    """The operator, and those who ask for its changes."""

    STATE = ("node", "_reached")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.readers: list[CommonReader] = []
        self._reached = BEGINNING_US
        self._error: Exception | None = None

    def reader(self, shown: Sequence[int] | None = None, schema: pa.Schema | None = None) -> CommonReader:
        """shown: the columns that it is given, as those of a schema; by default all as they are."""
        made = CommonReader(self, shown, self.node.schema if schema is None else schema)
        self.readers.append(made)
        return made

    def reach(self, until: int) -> None:
        """Have all changes before an instant waiting for everybody. What goes wrong does so for all, as each would find
        it in a part of its own."""
        if self._error is not None:
            raise self._error
        if until <= self._reached:
            return
        try:
            delta = self.node.take(until)
        except Exception as error:
            self._error = error
            raise
        self._reached = until
        for reader in self.readers if len(delta) else ():
            reader.waiting.append(delta)


class CommonReader:
    """One of those who ask: an operator that gives the changes of the part up to where it is asked."""

    STATE = ("part", "waiting", "_asked")
    ITEMS: ClassVar = {"waiting": Delta}

    def __init__(self, part: CommonPart, shown: Sequence[int] | None, schema: pa.Schema) -> None:
        self.part, self.schema = part, schema
        self._shown = shown
        self.waiting: list[Delta] = []  # what it was not asked for yet, in order
        self._asked = BEGINNING_US

    @property
    def netted(self) -> bool:
        # With fewer columns rows may be equal that were not.
        return self._shown is None and self.part.node.netted

    @property
    def complete(self) -> int:
        return min(self._asked, self.part.node.complete)

    def take(self, until: int) -> Delta:
        self.part.reach(until)
        self._asked = max(self._asked, until)
        ready: list[Delta] = []
        while self.waiting:
            before, behind = self.waiting[0].before(until)
            if len(before):
                ready.append(before)
            if len(behind):
                self.waiting[0] = behind
                break
            self.waiting.pop(0)
        delta = _as_one(ready, self.part.node.schema)
        if self._shown is None:
            return delta
        columns = [delta.data.column(place) for place in self._shown]
        return delta.with_data(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def inputs(self) -> Iterator[Node]:
        yield self.part.node

    @property
    def held_rows(self) -> int:
        return sum(map(len, self.waiting))

    @property
    def nbytes(self) -> int:
        """What waits; less what others take of the part, which is counted below this."""
        below = sum(node.nbytes for node in everything_below(self.part.node))
        return sum(int(one.data.nbytes) for one in self.waiting) + below // max(len(self.part.readers), 1) - below

    def next_event(self) -> int:
        waits = int(self.waiting[0].instants[0]) if self.waiting else FOREVER_US
        return min(waits, self.part.node.next_event())

    def leave(self) -> None:
        """Nobody asks it any more."""
        if self in self.part.readers:
            self.part.readers.remove(self)
            self.waiting = []


class GrowingRows:
    """The rows that come of a join that only grows, or of a selection, as an operator: nothing leaves it."""

    STATE = ("_source",)
    netted = True
    held_rows = nbytes = 0

    def __init__(self, source: JoinSource, schema: pa.Schema) -> None:
        self._source = source
        self.schema = schema

    @property
    def complete(self) -> int:
        return self._source.complete

    def take(self, until: int) -> Delta:
        rows = self._source.rows_before(until)
        if rows is None:
            return no_changes(self.schema)
        return Delta(rows.data, rows.times, np.ones(len(rows), np.int64), np.zeros(len(rows), np.int64))

    def inputs(self) -> Iterator[Node]:
        yield from ()

    def next_event(self) -> int:
        return self._source.next_birth()


class CommonRows(Windowed):
    """Such rows, of which others have windows of their own, through a window."""

    STATE = ("_node", "lifetimes")

    def __init__(self, node: Node, window: Window | None, boundary: Boundary) -> None:
        self._node = node
        self.lifetimes = lifetimes_of(window, boundary)

    @property
    def complete(self) -> int:
        return self._node.complete

    def take(self, until: int) -> Lives | None:
        delta = self._node.take(until)
        return self.lifetimes.of(Rows(delta.data, delta.instants) if len(delta) else None, until)

    def inputs(self) -> Iterator[Node]:
        yield self._node


def _as_one(deltas: Sequence[Delta], schema: pa.Schema) -> Delta:
    """Changes one after the other."""
    if len(deltas) < 2:
        return deltas[0] if deltas else no_changes(schema)
    return Delta(
        joined([one.data for one in deltas], schema),
        np.concatenate([one.instants for one in deltas]),
        np.concatenate([one.diffs for one in deltas]),
        np.concatenate([one.order for one in deltas]),
    )


class CommonInput:
    """Where the rows of one stream enter a part, whoever brings them."""

    def __init__(self, waiting: Waiting, columns: Collection[str]) -> None:
        """columns: those that the part looks at. Who brings rows may look at others."""
        self.waiting, self._columns = waiting, columns
        self._pieces = self._rows = 0  # that have come, and how many rows the last of them had
        self._leading: CommonEntry | None = None

    def entry(self) -> Waiting:
        """For one who brings rows."""
        made = CommonEntry(self)
        if self._leading is None:
            self._leading = made
        return cast(Waiting, made)

    def ends_for(self, entry: CommonEntry) -> list[tuple[int, int]]:
        """Where ends of all input are noted: once, of those that one query has several times."""
        return self.waiting.ends if entry is self._leading else []

    def add(self, piece: int, rows: Rows) -> None:
        if piece == self._pieces:
            self._pieces, self._rows = piece + 1, len(rows)
            self.waiting.add(rows.only(self._columns))
        elif piece != self._pieces - 1 or len(rows) != self._rows:
            raise RuntimeError("queries that share a part of their answers were given different rows")


class CommonEntry:
    """What `Waiting` is to one who brings rows."""

    def __init__(self, common: CommonInput) -> None:
        self._common, self._pieces = common, 0

    def add(self, rows: Rows) -> None:
        if len(rows):
            self._common.add(self._pieces, rows)
            self._pieces += 1

    @property
    def ended(self) -> bool:
        return self._common.waiting.ended

    @ended.setter
    def ended(self, ended: bool) -> None:
        # Who hears of the end later does not take it back.
        self._common.waiting.ended |= ended

    @property
    def ends(self) -> list[tuple[int, int]]:
        return self._common.ends_for(self)

    def __len__(self) -> int:
        return len(self._common.waiting)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._common.waiting, name)


def has_parts(operator: Operator) -> bool:
    """Whether a query has parts in common with others, or several times."""
    while isinstance(operator, Wrapper):
        operator = operator.inner
    return isinstance(operator, Continuous) and any(
        isinstance(node, CommonReader) for node in everything_below(operator.root)
    )


def leave_parts(operator: Operator) -> None:
    """A query needs no part any more that it has in common with others."""
    while isinstance(operator, Wrapper):
        operator = operator.inner
    if isinstance(operator, Continuous):
        _leave(operator.root)


def _leave(node: Node) -> None:
    if isinstance(node, CommonReader):
        node.leave()
        if node.part.readers:  # who go on with all that is below
            return
    for one in node.inputs():
        _leave(one)
