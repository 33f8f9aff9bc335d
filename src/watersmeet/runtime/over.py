"""The same query over other rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet.model.arriving import Arrivals, with_moments
from watersmeet.model.catalog import Catalog, Relation, Statistics, Stream, Table
from watersmeet.model.time_reading import TimeReading
from watersmeet.operators.constants import constant_rows
from watersmeet.optimizer.read_inputs import unlike
from watersmeet.plan.constants import Constants
from watersmeet.plan.nodes import Input, Join, Node
from watersmeet.plan.query import Plan
from watersmeet.plan.rewrite import transform, with_relations
from watersmeet.plan.user_functions import brought_in
from watersmeet.plan.walks import relations_below
from watersmeet.runtime.host import Host


def plan_over(plan: Plan, tables: Mapping[str, pa.Table], host: Host, *, has_values: bool) -> Plan:
    """A table for each of the streams and static tables, by name. has_values: whether the plan holds values that its
    text has only places for. It archives nothing, as those rows are not the query's own."""
    over = (_with_values_over if has_values or plan.says_less else _bound_over)(plan, tables, host)
    return replace(over, options=over.options.but(archive=None))


def constants_as_tables(plan: Plan) -> Plan:
    """The plan with the rows that it says itself as static tables, for those who look at the rows of all its inputs."""
    from watersmeet.io.sources import TableSource

    names = {one.name for one in relations_below(plan.root)}

    def table(one: Input) -> Input:
        if not isinstance(one.relation, Constants):
            return one
        rows = pa.Table.from_batches([constant_rows(one.relation)])
        name = unlike(names, one.relation.name)
        names.add(name)
        return replace(one, relation=Table(name, rows.schema, TableSource(rows, rows.schema)))

    def read(node: Node) -> Node:
        return replace(node, inputs=tuple(map(table, node.inputs))) if isinstance(node, Join) else node

    return replace(plan, root=transform(plan.root, read))


def _bound_over(plan: Plan, tables: Mapping[str, pa.Table], host: Host) -> Plan:
    """The text read once more: the rows may have columns of other types."""
    from watersmeet.sql import bind

    catalog = Catalog()
    catalog.functions.update(brought_in(plan.root))
    for relation in {one.name: one for one in relations_below(plan.root)}.values():
        given = tables[relation.name]
        reading = _reading_of_rows(relation, given)
        schema, source, rows = host.opened(given, relation.name, relation.rounding, None, reading)
        # What was declared or measured was of the query's own rows; of these only the number is known.
        change = _timed_as_given(relation, schema, reading)
        catalog.add(replace(relation, source=source, statistics=Statistics(rows=rows), **change))
    return bind(plan.sql, catalog, plan.options.timezone)


def _with_values_over(plan: Plan, tables: Mapping[str, pa.Table], host: Host) -> Plan:
    """The plan with its values in it, which the text has not; the rows must fit its columns."""
    from watersmeet.io.conform import check_columns

    def change(relation: Relation) -> Relation:
        given = tables[relation.name]
        reading = _reading_of_rows(relation, given)
        schema, source, rows = host.opened(given, relation.name, relation.rounding, None, reading)
        timed = _timed_as_given(relation, schema, reading)
        check_columns(timed["schema"], relation.schema, relation.name, "the table given for it")
        timed["schema"] = relation.schema
        return replace(relation, source=source, statistics=Statistics(rows=rows), **timed)

    return replace(plan, root=with_relations(plan.root, change))


def _timed_as_given(relation: Stream | Table, schema: pa.Schema, reading: TimeReading | None) -> dict[str, Any]:
    """What changes in a relation with the columns of other rows: those that have arrived bring their moments along."""
    if not isinstance(relation, Stream):
        return {"schema": schema}
    if not relation.by_arrival or relation.time in schema.names:
        return {"schema": schema, "reading": reading, "arrivals": None}
    return {"schema": with_moments(relation.name, schema, relation.time), "reading": None, "arrivals": Arrivals()}


def _reading_of_rows(relation: Stream | Table, rows: pa.Table) -> TimeReading | None:
    """How event times of other rows of a stream are written: as a query sees them, or as the stream's own are."""
    if not isinstance(relation, Stream) or relation.time not in rows.column_names:
        return None
    return None if pa.types.is_timestamp(rows.schema.field(relation.time).type) else relation.reading
