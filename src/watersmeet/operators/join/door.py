"""The door of a join: which rows come in, with the codes they are compared by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Positions, Rows
from watersmeet.operators.join.admission import Admission
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.row_windows import Deaths
from watersmeet.physical.strategy import Code


@dataclass(slots=True)
class Admitted:
    """Rows of one input that can match at all, with what belongs to them. `entering` tells which of them are joined;
    None: all are."""

    rows: Rows
    codes: Mapping[Code, Codes]
    deaths: Deaths | None = None
    entering: Mask | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def joined(self) -> Admitted:
        """Those that are joined."""
        return self if self.entering is None else self.at(np.flatnonzero(self.entering))

    def at(self, positions: Positions) -> Admitted:
        deaths = self.deaths
        if deaths is not None:
            deaths = replace(deaths, serials=deaths.serials[positions], times=deaths.times[positions])
        return Admitted(self.rows.take(positions), {c: v[positions] for c, v in self.codes.items()}, deaths)

    def between(self, first: int, last: int) -> Admitted:
        """Those from one place to another."""
        if first == 0 and last >= len(self):
            return self
        rows, deaths = Rows(self.rows.data.slice(first, last - first), self.rows.times[first:last]), self.deaths
        if deaths is not None:
            deaths = replace(deaths, serials=deaths.serials[first:last], times=deaths.times[first:last])
        entering = None if self.entering is None else self.entering[first:last]
        return Admitted(rows, {code: values[first:last] for code, values in self.codes.items()}, deaths, entering)


class Door:
    """Lets in every row that can match at all: it passes its input's own filters, and no code of it is NULL."""

    def __init__(self, layout: Layout) -> None:
        filters = layout.strategy.filters
        self.admissions = {
            alias: Admission(filters.get(alias, ()), layout.admitted_codes(alias)) for alias in layout.inputs
        }

    def admit(self, alias: str, rows: Rows, deaths: Deaths | None = None) -> Admitted:
        """The rows that can match, whether or not there is time to join them."""
        rows, codes, kept = self.admissions[alias].admit(rows)
        if deaths is not None and kept is not None:
            deaths = replace(deaths, serials=deaths.serials[kept], times=deaths.times[kept])
        return Admitted(rows, codes, deaths)

    def let_in(self, alias: str, rows: Rows, deaths: Deaths | None = None) -> Admitted:
        """New rows come, to be joined."""
        return self.admit(alias, rows, deaths)
