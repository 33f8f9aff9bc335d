"""Which rows are asked about: one of each input, or of some of them, by its place or by the value of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import BindError, OptionError, SourceError, UnsupportedError
from watersmeet.io.conform import entered
from watersmeet.io.time_ordered import readable_of, source_now
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.names import column_named, columns_hint, nearest
from watersmeet.model.types import sql_type
from watersmeet.model.wording import counted
from watersmeet.plan.nodes import Input, Join
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import nodes_below

BATCH_ROWS = 1 << 16
# Of an input: the number of a row, counted from 1 in the order of the input, or columns and their values.
Asked = Mapping[str, int | Mapping[str, Any]]
_ONE_OF_EACH = "name one row of each input, or of two of them"


@dataclass(frozen=True)
class Picked:
    """A row of an input: its values, its number, and all rows beside which it stands."""

    alias: str
    number: int
    row: pa.RecordBatch
    everything: pa.Table

    def value(self, column: str) -> Any:
        return self.row.column(column)[0].as_py()


def parse_rows(written: Sequence[str]) -> dict[str, int | dict[str, str]]:
    """`a:17` is the 17th row of a, `a.id=17` the one whose id is 17; several are separated by commas.

    >>> parse_rows(["a:17,b.id=23"])
    {'a': 17, 'b': {'id': '23'}}
    """
    found: dict[str, int | dict[str, str]] = {}
    for part in (one.strip() for text in written for one in text.split(",")):
        name, colon, place = part.partition(":")
        if colon and place.strip().isdigit():
            if name.strip() in found:
                raise BindError(f"{name.strip()} is asked for twice", hint=_ONE_OF_EACH)
            found[name.strip()] = int(place)
            continue
        column, equals, value = part.partition("=")
        alias, dot, column = column.strip().partition(".")
        if not (equals and dot and alias and column):
            raise BindError(f"{part!r} names no row", hint="write a:17 for the 17th row of a, or a.id=17 for its id")
        held = found.setdefault(alias, {})
        if not isinstance(held, dict):
            raise BindError(f"{alias} is asked for twice, by its number and by {column}", hint=_ONE_OF_EACH)
        if column in held:
            raise BindError(f"{alias}.{column} is asked for twice", hint=_ONE_OF_EACH)
        held[column] = value.strip()
    return found


def check_asked(asked: object) -> None:
    """Refuse from a program what names no rows."""
    hint = "write {'a': 17} for the 17th row of a, or {'a': {'id': 17}} for its id"
    if not isinstance(asked, Mapping) or not all(isinstance(alias, str) for alias in asked):
        raise OptionError(f"rows are named by a dict, with a row for each input, not by {asked!r}", hint=hint)
    for alias, which in asked.items():
        is_number = isinstance(which, int) and not isinstance(which, bool)
        is_columns = isinstance(which, Mapping) and which and all(isinstance(name, str) for name in which)
        if not (is_number or is_columns):
            raise OptionError(f"{which!r} names no row of {alias}", hint=hint)
    aliases = [alias.lower() for alias in asked]
    twice = next((alias for alias in asked if aliases.count(alias.lower()) > 1), None)
    if twice is not None:
        raise OptionError(f"{twice} is asked for twice", hint=_ONE_OF_EACH)


def join_of(plan: Plan, asked: Sequence[str]) -> Join:
    """The join in which the rows would meet."""
    joins = [one for one in nodes_below(plan.root, into_subqueries=True) if isinstance(one, Join)]
    for join in joins:
        known = {one.alias.lower() for one in join.inputs}
        if {alias.lower() for alias in asked} <= known:
            return join
    names = sorted({one.alias for join in joins for one in join.inputs})
    strange = next((alias for alias in asked if alias.lower() not in {one.lower() for one in names}), None)
    if strange is None:
        raise BindError(
            f"{', '.join(asked)} are not in one FROM, so no row is made of all of them",
            hint="ask about the inputs of one FROM at a time",
        )
    meant = nearest(strange, names)
    raise BindError(
        f"{strange} is not in FROM", hint=f"did you mean {meant}?" if meant else f"the inputs are {', '.join(names)}"
    )


def pick(join: Join, asked: Asked) -> list[Picked]:
    """The rows in the order of FROM. Of two inputs or more one each is enough: the others may bring any of theirs."""
    by_alias = {alias.lower(): which for alias, which in asked.items()}
    missing = [one.alias for one in join.inputs if one.alias.lower() not in by_alias]
    if missing and len(by_alias) < 2:
        raise BindError(
            f"no row of {missing[0]} is given, and a row is made of one of each: "
            f"{', '.join(one.alias for one in join.inputs)}",
            hint=f"name one of {missing[0]} as well, by its number or by a column",
        )
    named = [one for one in join.inputs if one.alias not in missing]
    return [_picked(one, by_alias[one.alias.lower()]) for one in named]


def _picked(one: Input, which: int | Mapping[str, Any]) -> Picked:
    if not isinstance(one.relation, Stream | Table):
        raise UnsupportedError(
            f"the rows of {one.alias} are made by a query, so none of them can be pointed at",
            hint="ask about the streams of that query, as a query of its own",
        )
    rows = rows_of(one.relation)
    number = _numbered(one.alias, rows, which) if isinstance(which, int) else _found(one.alias, rows, which)
    return picked_row(one.alias, number, rows)


def picked_row(alias: str, number: int, rows: pa.Table) -> Picked:
    (row,) = rows.slice(number - 1, 1).combine_chunks().to_batches()
    return Picked(alias, number, row, rows)


def rows_of(relation: Stream | Table) -> pa.Table:
    """All rows of an input that ends."""
    source: Any = relation.source
    if not hasattr(source, "batches") or not source.bounded:
        raise SourceError(
            f"{relation.name!r} cannot be read to its end, so its rows cannot be looked at",
            hint="declare it over a table or over files",
        )
    source = source_now(relation)
    if isinstance(relation, Stream):
        source = readable_of(relation, source, None)
    schema = relation.schema
    return pa.Table.from_batches(entered(source.batches(BATCH_ROWS), relation), schema=schema)


def _numbered(alias: str, rows: pa.Table, number: int) -> int:
    if not 1 <= number <= rows.num_rows:
        raise BindError(
            f"{alias} has {counted(rows.num_rows, 'row')}, and no row {number:,}", hint="rows are counted from 1"
        )
    return number


def _found(alias: str, rows: pa.Table, which: Mapping[str, Any]) -> int:
    mask: Any = None
    for name, value in which.items():
        column = column_named(name, rows.schema.names)
        if column is None:
            raise BindError(f"{alias} has no column {name!r}", hint=columns_hint(rows.schema.names))
        here = pc.fill_null(pc.equal(rows[column], _as(value, alias, rows.schema.field(column))), False)
        mask = here if mask is None else pc.and_(mask, here)
    numbers = pc.indices_nonzero(mask).to_pylist()
    condition = " and ".join(f"{name} = {value}" for name, value in which.items())
    if not numbers:
        raise BindError(f"no row of {alias} has {condition}")
    if len(numbers) > 1:
        some = ", ".join(f"{number + 1:,}" for number in numbers[:3])
        more = " …" if len(numbers) > 3 else ""
        raise BindError(
            f"{len(numbers):,} rows of {alias} have {condition}", hint=f"say which by its number: {some}{more}"
        )
    return int(numbers[0]) + 1


def _as(value: Any, alias: str, field: pa.Field) -> pa.Scalar:
    try:
        made = pa.array([value])
        return made.cast(field.type)[0] if made.type != field.type else made[0]
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise BindError(f"{value!r} is no value of {alias}.{field.name}, which is {sql_type(field.type)}") from None
