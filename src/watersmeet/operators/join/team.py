"""Several joins as one operator: given the same rows, which they keep and walk through together.

A host that rebuilds operators from rows keeps these rows once for all of the joins. Each join answers, counts and
forgets as it would alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from watersmeet.operators.codes import Mask
from watersmeet.operators.contract import Counters, End, Operator, Results, Rows
from watersmeet.operators.counters import counted_together
from watersmeet.operators.join.shared_keeping import keep_together
from watersmeet.operators.join.shared_walk import SharedWalks
from watersmeet.operators.join.shared_window import SharedWindow, WindowView
from watersmeet.operators.join.window_join import WindowJoin

Division = dict[str, list[list[int]] | None]


class Team(Operator):
    """Joins of the same streams, each of which it looks at once, as long as time lets their rows be kept."""

    # Which windows there are comes first: joins do not save what lies in them.
    STATE: ClassVar[tuple[str, ...]] = ("division", "joins", "windows")

    def __init__(
        self, joins: Mapping[str, WindowJoin], called: Mapping[str, Mapping[str, str]], walks: SharedWalks
    ) -> None:
        """By the names of joins: them, and what they call the streams."""
        self.joins = dict(joins)
        self.called = called
        streams = next(iter(called.values()))
        views = {stream: self._views(stream) for stream in streams}
        kept = {stream: [found] for stream, found in views.items() if len(found) > 1}
        made = keep_together(kept, walks, lambda stream, joins: None)
        self._streams = {stream: windows for stream, (windows,) in made.items()}

    def _views(self, stream: str) -> list[WindowView]:
        names = {name: self.called[name][stream] for name in self.joins}
        return [
            WindowView(self.joins[name], alias) for name, alias in names.items() if alias in self.joins[name].stores
        ]

    # ---- rows and time ----------------------------------------------------------------------------------------------

    def push(self, alias: str, rows: Rows) -> Iterator[pa.RecordBatch]:
        for _, answers in self.pushed_to_each(alias, rows):
            yield from answers

    def advance(self, watermarks: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        for _, answers in self.advanced_each(watermarks):
            yield from answers

    def pushed_to_each(self, stream: str, rows: Rows) -> Iterator[tuple[str, Results]]:
        """New rows of a stream: what each join answers, which is to be taken before the next."""
        # The first rows tell which joins keep them together, so that some must have come.
        for name, join in self.joins.items() if len(rows) else ():
            yield name, join.push(self.called[name][stream], rows)

    def advanced_each(self, watermarks: Mapping[str, int]) -> Iterator[tuple[str, Results]]:
        for name, join in self.joins.items():
            yield name, join.advance({alias: watermarks[stream] for stream, alias in self.called[name].items()})

    def taken_by_each(self, batch: Mapping[str, Rows], watermarks: Mapping[str, int]) -> Iterator[tuple[str, Results]]:
        """`take`, with the join whose answers they are."""
        for stream, rows in batch.items():
            yield from self.pushed_to_each(stream, rows)
        yield from self.advanced_each(watermarks)

    # ---- what a restart would miss ----------------------------------------------------------------------------------

    def restore(self, log: Mapping[str, Rows], complete_until: int, ends: Sequence[End] = ()) -> None:
        for stream, rows in log.items():
            for name, join in self.joins.items() if len(rows) else ():
                join.store(self.called[name][stream], rows)
        for join in self.joins.values():
            join.restore({}, complete_until, ends)

    def still_needed(self, alias: str, rows: Rows, complete_until: int) -> Mask:
        needed = np.zeros(len(rows), np.bool_)
        for name, join in self.joins.items():
            needed |= join.still_needed(self.called[name][alias], rows, complete_until)
        return needed

    @property
    def division(self) -> Division:
        """By streams, which of the ways of letting rows in have a window together."""
        return {stream: one.division for stream, one in self._streams.items()}

    @division.setter
    def division(self, known: Division) -> None:
        for stream, division in known.items():
            if division is not None:
                self._streams[stream].divide(division)

    @property
    def windows(self) -> dict[str, list[SharedWindow]]:
        return {stream: one.windows for stream, one in self._streams.items()}

    # ---- what it holds ----------------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:  # type: ignore[override]
        """Of all joins together."""
        return counted_together([join.counters for join in self.joins.values()])

    @property
    def kept_rows(self) -> int:
        return sum(join.kept_rows for join in self.joins.values())

    @property
    def state_bytes(self) -> int:
        return sum(join.state_bytes for join in self.joins.values())
