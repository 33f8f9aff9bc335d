"""What became of some rows when the query ran: it is run once more, with the numbers of all rows in its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.io.sources import TableSource
from watersmeet.model.catalog import Statistics, Stream, Table
from watersmeet.plan.expressions import Column, EventTime
from watersmeet.plan.nodes import Input, Join, Plan, Project
from watersmeet.why.asked import Picked

NUMBER = "__number"


@dataclass(frozen=True)
class Outcome:
    """late: the inputs whose row came too late. met_us: the event time of their answer, if there was one. shed_rows:
    how many rows bounded memory let go of."""

    late: tuple[str, ...]
    met_us: int | None
    shed_rows: int


def tried(plan: Plan, join: Join, picked: Mapping[str, Picked]) -> Outcome:
    """Run the join over all rows and look for the answer that is made of these."""
    inputs = tuple(_numbered(one, picked) for one in join.inputs)
    numbered = replace(join, inputs=inputs, kind="inner", where=(), certain=())
    columns = [(alias, Column(alias, NUMBER, pa.int64())) for alias in picked]
    root = Project(numbered, (*columns, ("at", EventTime(pa.timestamp("us")))))
    run = PulledExecution(replace(plan, root=root))
    late: dict[str, list[npt.NDArray[np.int64]]] = {}
    run.on_late_rows = lambda stream, numbers: late.setdefault(stream, []).append(numbers + 1)
    run.tell = lambda what: None
    met_us: int | None = None
    for batch in run.batches():
        here = None
        for alias, one in picked.items():
            same = pc.equal(batch.column(alias), one.number)
            here = same if here is None else pc.and_(here, same)
        found = batch.filter(here)
        if found.num_rows and met_us is None:
            met_us = int(found.column("at").view(pa.int64())[0].as_py())
    streams = {one.alias: one.relation.name for one in join.inputs if isinstance(one.relation, Stream)}
    too_late = [
        alias
        for alias, stream in streams.items()
        if any(bool((numbers == picked[alias].number).any()) for numbers in late.get(stream, ()))
    ]
    return Outcome(tuple(too_late), met_us, run.metrics.shed_rows)


def _numbered(one: Input, picked: Mapping[str, Picked]) -> Input:
    """The same input with the number of every row."""
    rows = picked[one.alias].everything
    table = rows.append_column(pa.field(NUMBER, pa.int64()), pa.array(np.arange(1, rows.num_rows + 1)))
    relation = one.relation
    assert isinstance(relation, Stream | Table)
    schema = pa.schema([*relation.schema, pa.field(NUMBER, pa.int64())])
    known = replace(relation, schema=schema, source=TableSource(table, schema), statistics=Statistics())
    return replace(one, relation=known)
