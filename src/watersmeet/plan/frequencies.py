"""Tables by which a user says how often keys come, for shed = 'prob' and 'life' (DGR03's estimator)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.model.catalog import Catalog, Table
from watersmeet.plan.expressions import Call, columns_of
from watersmeet.plan.nodes import Join, Node
from watersmeet.plan.options import Options
from watersmeet.plan.shapes import plain_join

FREQUENCY = "frequency"
Frequencies = tuple[tuple[str, Table], ...]  # by stream


def frequencies_of(root: Node, options: Options, catalog: Catalog) -> Frequencies:
    """The tables that a query names, one for each of its streams; raises OptionError if one cannot say it."""
    plain = plain_join(root)
    if plain is None or options.frequencies is None or options.memory is None:
        return ()  # or refused by plan/shedding
    named = {name.lower(): table for name, table in options.frequencies.items()}
    streams = [one.alias for one in plain.join.streams]
    for name in named.keys() - {"", *(alias.lower() for alias in streams)}:
        raise _wrong(options, f"names {name!r}, which is no stream of this join", f"it has {', '.join(streams)}")
    keys = {alias: sorted(set(_compared(plain.join, alias))) for alias in streams}
    if not any(keys.values()):
        raise _wrong(options, "says how often keys come, and this join compares none", "leave it out")
    return tuple((alias, _table(options, named, alias, keys[alias], catalog)) for alias in streams if keys[alias])


def _compared(join: Join, alias: str) -> Iterator[str]:
    """The columns of a stream that stand in equalities with other streams."""
    others = {one.alias for one in join.streams} - {alias}
    for predicate in join.predicates:
        match predicate:
            case Call(function="eq", args=args):
                read = [{c.stream for c in columns_of(side)} for side in args]
                if {alias} in read and any(one and one <= others for one in read):
                    yield from (c.name for side in args for c in columns_of(side) if c.stream == alias)


def _table(options: Options, named: dict[str, str], alias: str, keys: list[str], catalog: Catalog) -> Table:
    name = named.get(alias.lower(), named.get(""))
    if name is None:
        raise _wrong(
            options,
            f"names no table for {alias}, and rows are worth what the tables of all streams say together",
            f"write frequencies = '…, {alias}: {next(iter(named.values()))}'",
        )
    try:
        table = catalog[name]
    except KeyError:
        raise _wrong(
            options,
            f"names {name!r}, which is not declared",
            f"declare it first: CREATE TABLE {name} (…, {FREQUENCY} BIGINT) WITH (…)",
        ) from None
    if not isinstance(table, Table):
        raise _wrong(
            options,
            f"names {name!r}, which is no static table",
            f"name one with the columns {', '.join((*keys, FREQUENCY))}",
        )
    missing = [column for column in (*keys, FREQUENCY) if column not in table.schema.names]
    if missing:
        raise _wrong(
            options,
            f"names table {name!r}, which has no column {', '.join(missing)}",
            f"it needs the columns of {alias} that are compared ({', '.join(keys)}), and how often such rows come: "
            f"SELECT {', '.join(keys)}, count(*) AS {FREQUENCY} …",
        )
    kind = table.schema.field(FREQUENCY).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise _wrong(options, f"names table {name!r}, whose {FREQUENCY} is {kind}", "give it as BIGINT or DOUBLE")
    return table


def _wrong(options: Options, why: str, hint: str) -> OptionError:
    return options.wrong("frequencies", why, hint)
