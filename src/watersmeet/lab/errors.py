"""How far an answer is from the exact one, by all error measures of DGR03 (section 2.2): two tables, or two files.

Rows are compared as bags, by the names of their columns; NULL equals NULL, as in DISTINCT.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.lab.result_files import read_rows
from watersmeet.model.wording import aligned, fitted
from watersmeet.papers.shedding.measures import Agreement, earth_movers_distance, match_and_compare

Say = Callable[[str], None]
# Distances are worked out between all rows of both, and the cheapest choice among them takes longer than their number.
MOST_PAIRS = 4_000_000


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. What could not be worked out is None, and `left_out` says why, by the name of the field."""

    x_rows: int
    y_rows: int
    columns: tuple[str, ...]
    matching: int
    symmetric_difference: int
    dice: float
    jaccard: float
    cosine: float
    cosine_as_printed: float
    overlap: float
    earth_movers_distance: float | None
    match_and_compare: float | None
    incomplete_rows: int | None
    left_out: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "columns": list(self.columns)}


def compare(
    x: pa.Table,
    y: pa.Table,
    *,
    columns: Sequence[str] = (),
    distance_by: Sequence[str] = (),
    members: Sequence[str] = (),
    most_pairs: int = MOST_PAIRS,
) -> Comparison:
    """Hold an answer `x` against the exact answer `y`.

    columns: what rows are compared by; all, unless said.
    distance_by: the columns, of numbers or times, that say how far two rows are apart (EMD and MAC); those that are
        compared, unless said. Times count in seconds.
    members: the columns that name the rows which were joined, one for each stream. With them, the rows that did not
        meet all their partners are counted: the Archive-metric.
    most_pairs: distances are left out if there would be more.

    >>> exact = pa.table({"a": [1, 1, 2, 3], "b": [7, 8, 7, 9]})
    >>> seen = compare(exact.slice(0, 3), exact, members=["a", "b"])
    >>> seen.symmetric_difference, seen.jaccard, seen.overlap, seen.earth_movers_distance, seen.incomplete_rows
    (1, 0.75, 1.0, 0.0, 2)
    """
    by = _columns(x, y, columns)
    both = _together(x.select(by), y.select(by))
    group, count_x, count_y = _counted(both, x.num_rows)
    agreed = Agreement(int(np.minimum(count_x, count_y).sum()), x.num_rows, y.num_rows)
    left_out: dict[str, str] = {}
    points = _points(both, x.num_rows, distance_by or by, by, left_out, asked=bool(distance_by))
    emd = _moved(points, group, count_x, count_y, x.num_rows, most_pairs, left_out)
    mac = _matched(points, x.num_rows, most_pairs, left_out)
    incomplete = _incomplete(both, group, count_x, count_y, x.num_rows, members, by, left_out)
    return Comparison(
        x.num_rows, y.num_rows, tuple(by), agreed.common, agreed.symmetric_difference, agreed.dice, agreed.jaccard,
        agreed.cosine, agreed.cosine_as_printed, agreed.overlap, emd, mac, incomplete, left_out,
    )  # fmt: skip


def _columns(x: pa.Table, y: pa.Table, wanted: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(wanted)) or x.column_names
    for which, table in (("first", x), ("second", y)):
        missing = [name for name in names if name not in table.column_names]
        if missing:
            has = ", ".join(table.column_names) or "none"
            raise DataError(
                f"the {which} answer has no column {missing[0]!r}; it has {has}",
                hint="name columns that both have: --columns a,b (in Python columns=['a', 'b'])",
            )
        twice = next((name for name in names if table.column_names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"the {which} answer has two columns {twice!r}", hint="give them names with AS")
    more = [name for name in y.column_names if name not in names]
    if not wanted and more:
        raise DataError(
            f"the second answer has a column {more[0]!r} that the first has not",
            hint="say which columns to compare: --columns a,b (in Python columns=['a', 'b'])",
        )
    if not names:
        raise DataError("there are no columns to compare", hint="give answers with a column or more")
    return names


def _together(x: pa.Table, y: pa.Table) -> pa.Table:
    """The rows of both, one after the other, in types that can hold both."""
    x, y = _plain(x), _plain(y)
    for name in x.column_names:
        pair = [pa.schema([table.schema.field(name)]) for table in (x, y)]
        try:
            pa.unify_schemas(pair, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            types = " and ".join(str(one.field(name).type) for one in pair)
            raise DataError(
                f"the column {name!r} cannot be compared: it is of types {types}",
                hint="cast it in one of the queries, or leave it out with --columns",
            ) from None
    return pa.concat_tables([x, y], promote_options="permissive").combine_chunks()


def _plain(table: pa.Table) -> pa.Table:
    """Without dictionaries, which are a matter of storage, and with one zero."""
    columns = []
    for column in table.columns:
        one = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        columns.append(pc.add(one, 0.0) if pa.types.is_floating(one.type) else one)
    return pa.table(columns, names=table.column_names)


def _counted(both: pa.Table, of_x: int) -> tuple[Any, Any, Any]:
    """Equal rows get equal numbers; how many of each are in the first, and in the second."""
    names = [f"c{i}" for i in range(both.num_columns)]
    numbered = both.rename_columns(names).append_column("row", pa.array(np.arange(both.num_rows)))
    try:
        firsts = numbered.group_by(names).aggregate([("row", "list")])["row_list"].combine_chunks()
    except pa.ArrowNotImplementedError:
        kinds = ", ".join(sorted({str(field.type) for field in both.schema if pa.types.is_nested(field.type)}))
        raise DataError(
            f"columns of type {kinds or 'this kind'} cannot be compared", hint="leave them out with --columns"
        ) from None
    group = np.empty(both.num_rows, np.int64)
    group[firsts.flatten().to_numpy()] = np.repeat(np.arange(len(firsts)), np.diff(firsts.offsets.to_numpy()))
    size = len(firsts)
    return group, np.bincount(group[:of_x], minlength=size), np.bincount(group[of_x:], minlength=size)


DISTANCES = ("earth_movers_distance", "match_and_compare")


def _points(
    both: pa.Table, of_x: int, wanted: Sequence[str], known: Sequence[str], left_out: dict[str, str], *, asked: bool
) -> Any:
    """The rows as points, or None if their distance is not defined."""
    columns = []
    for name in wanted:
        if name not in known:
            raise DataError(f"{name!r} is no column that is compared; those are {', '.join(known)}")
        column = both[name]
        numbers = _as_numbers(column)
        why = f"{name} is {column.type}, no number or time" if numbers is None else f"{name} has NULLs"
        if numbers is None or column.null_count:
            if asked:
                raise DataError(f"the column {name!r} says no distance: {why}", hint="name others: --distance-by a,b")
            hint = "; say --distance-by and columns of numbers or times"
            left_out.update(dict.fromkeys(DISTANCES, f"rows have no distance: {why}{hint}"))
            return None
        columns.append(numbers)
    return np.stack(columns, axis=1)


def _as_numbers(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_date(kind):
        whole = column.cast(pa.timestamp("us")) if pa.types.is_date(kind) else column
        unit = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[whole.type.unit]
        return whole.cast(pa.int64()).to_numpy() / unit
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64()).to_numpy()
    return None


def _moved(
    points: Any, group: Any, count_x: Any, count_y: Any, of_x: int, most_pairs: int, left_out: dict[str, str]
) -> float | None:
    """EMD. What both have stays where it is: by the triangle inequality no other way is cheaper."""
    name = DISTANCES[0]
    if of_x > group.size - of_x:
        left_out[name] = "the first answer is moved into the second, but has more rows"
        return None
    common = np.minimum(count_x, count_y)
    if common.sum() == of_x:
        left_out.pop(name, None)
        return 0.0
    if points is None:
        return None
    left, right = points[:of_x][_beyond(group[:of_x], common)], points[of_x:][_beyond(group[of_x:], common)]
    if len(left) * len(right) > most_pairs:
        left_out[name] = _too_many(len(left), len(right), most_pairs)
        return None
    return earth_movers_distance(_bag(left), _bag(right))


def _matched(points: Any, of_x: int, most_pairs: int, left_out: dict[str, str]) -> float | None:
    """MAC, scored by the sum of the distances of its pairs."""
    if points is None:
        return None
    of_y = len(points) - of_x
    if of_x * of_y > most_pairs:
        left_out[DISTANCES[1]] = _too_many(of_x, of_y, most_pairs)
        return None
    if bool(of_x) != bool(of_y):
        left_out[DISTANCES[1]] = "one of the answers is empty, so nothing can be matched"
        return None
    return match_and_compare(_bag(points[:of_x]), _bag(points[of_x:]))


def _too_many(x: int, y: int, most: int) -> str:
    return f"{x:,} by {y:,} rows are more than {most:,} pairs; --pairs {x * y} works it out, which may take long"


def _bag(points: Any) -> pa.Table:
    return pa.table({f"c{i}": points[:, i] for i in range(points.shape[1])})


def _beyond(group: Any, common: Any) -> Any:
    """Which rows are beyond the first so many of their group that both answers have."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(common.size))
    beyond = np.empty(group.size, np.bool_)
    beyond[order] = np.arange(group.size) - starts[group[order]] >= common[group[order]]
    return beyond


def _incomplete(
    both: pa.Table, group: Any, count_x: Any, count_y: Any, of_x: int, members: Sequence[str], known: Sequence[str],
    left_out: dict[str, str],
) -> int | None:  # fmt: skip
    """ArM: the rows, named by the columns of members, that are in a result of the second that the first lacks."""
    if not members:
        left_out["incomplete_rows"] = "say which columns name the rows that were joined: --members a,b"
        return None
    unknown = [name for name in members if name not in known]
    if unknown:
        raise DataError(f"{unknown[0]!r} is no column that is compared; those are {', '.join(known)}")
    missing = both.slice(of_x).filter(pa.array(_beyond(group[of_x:], np.minimum(count_x, count_y))))
    return int(sum(pc.count_distinct(missing[name], mode="all").as_py() for name in members))


# ---- as a command ----

WORDS = {
    "matching": "rows that both have",
    "symmetric_difference": "rows that only one has: the MAX-subset error",
    "dice": "",
    "jaccard": "of a part of the exact answer its share, the recall",
    "cosine": "",
    "cosine_as_printed": "with the root that the paper prints",
    "overlap": "1 if one is a part of the other",
    "earth_movers_distance": "EMD, least work that moves X into Y",
    "match_and_compare": "MAC, least sum of distances in which every row has a partner",
    "incomplete_rows": "ArM, rows that did not meet all their partners",
}


def errors_command(
    x: Path, y: Path, say: Say, *, format: str = "text", columns: Sequence[str] = (), distance_by: Sequence[str] = (),
    members: Sequence[str] = (), most_pairs: int = MOST_PAIRS,
) -> None:  # fmt: skip
    found = compare(
        read_rows(x), read_rows(y), columns=columns, distance_by=distance_by, members=members, most_pairs=most_pairs
    )
    if format == "json":
        say(json.dumps({"x": str(x), "y": str(y), **found.as_dict()}))
        return
    say(fitted(f"X, the answer: {x.name}, {found.x_rows:,} rows; Y, the exact one: {y.name}, {found.y_rows:,} rows"))
    say(fitted(f"compared by {', '.join(found.columns)}"))
    values = found.as_dict()
    rows = [["measure", "value", ""]]
    for name, words in WORDS.items():
        rows.append([name.replace("_", " "), _shown(values[name]), words])
    for line in _table(rows):
        say(line)
    for name, why in found.left_out.items():
        say(fitted(f"{name.replace('_', ' ')}: {why}", 2))


def _shown(value: float | int | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    numbers = aligned([list(row[:2]) for row in rows], left=1)
    return [f"{line}  {row[2]}".rstrip() for line, row in zip(numbers, rows, strict=True)]
