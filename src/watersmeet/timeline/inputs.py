"""The inputs of a query as tables whose rows have numbers, so that a run over them can be followed row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import UnsupportedError
from watersmeet.io.files import FileSource
from watersmeet.io.sources import TableSource
from watersmeet.model.catalog import Statistics, Stream, Table
from watersmeet.plan.nodes import Input, Join, Node
from watersmeet.plan.rewrite import with_relations
from watersmeet.plan.walks import nodes_below, relations_below
from watersmeet.why.asked import rows_of

NUMBER = "#number"  # no column of the language's own is written so


@dataclass(frozen=True)
class Inputs:
    """By name, all rows of what a query reads."""

    tables: dict[str, pa.Table]

    @staticmethod
    def of(root: Node) -> Inputs:
        """Each is read once, so that what flows past is there for every run."""
        relations = {one.name: one for one in relations_below(root)}
        for one in relations.values():
            if isinstance(one, Stream) and one.by_arrival:
                raise UnsupportedError(
                    f"the event time of {one.name!r} is the moment at which its rows arrive, so rows that are all "
                    "there have none to be drawn at",
                    hint="declare it with a column of times, time = 'ts'",
                )
        return Inputs({name: rows_of(one) for name, one in relations.items()})

    def over_tables(self, root: Node) -> Node:
        """The same query over the tables."""
        return with_relations(root, lambda relation: _over(relation, self.tables[relation.name]))

    def numbered(self, join: Join) -> Join:
        """The same join of streams and tables, with the number of each row as a column more."""
        return replace(join, inputs=tuple(map(self._numbered, join.inputs)))

    def _numbered(self, one: Input) -> Input:
        relation = one.relation
        assert isinstance(relation, Stream | Table)
        rows, field = self.tables[relation.name], pa.field(NUMBER, pa.int64())
        numbers = pa.array(np.arange(1, rows.num_rows + 1), pa.int64())
        wider = replace(relation, schema=pa.schema([*relation.schema, field]))
        return replace(one, relation=_over(wider, rows.append_column(field, numbers)))


def _over(relation: Stream | Table, rows: pa.Table) -> Stream | Table:
    known = replace(relation, source=TableSource(rows, relation.schema), statistics=Statistics())
    if isinstance(known, Stream) and not isinstance(relation.source, TableSource | FileSource):
        # What flows is taken in its order, in which rows may be late.
        known = replace(known, arrival=replace(known.arrival, read="arrival"))
    return known


def lanes_below(root: Node) -> list[tuple[Join, Input]]:
    """The streams and tables of every FROM, each with the join that it is an input of."""
    joins = [one for one in nodes_below(root, into_subqueries=True) if isinstance(one, Join)]
    return [(join, one) for join in joins for one in join.inputs if isinstance(one.relation, Stream | Table)]


def followed_join(root: Node) -> Join | None:
    """The join whose members can be told by their numbers: that of the outermost FROM, if all its inputs are streams
    and tables and it has two or more."""
    joins: Sequence[Join] = [one for one in nodes_below(root, into_subqueries=False) if isinstance(one, Join)]
    if len(joins) != 1 or len(joins[0].inputs) < 2:
        return None
    return joins[0] if all(isinstance(one.relation, Stream | Table) for one in joins[0].inputs) else None
