"""`watersmeet lab static`: which rows of stored tables to keep or drop for their join (DGR03, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from watersmeet.errors import DataError, SetupError
from watersmeet.model.wording import aligned
from watersmeet.papers.shedding.arrivals import Numbers, as_array
from watersmeet.papers.shedding.static import Components, delete, drop_least_damaging, retain, retain_by_side

Say = Callable[[str], None]
SHOWN_VALUES = 30


def static_command(
    files: Sequence[Path],
    on: str,
    *,
    keep: int | None = None,
    drop: Sequence[int] = (),
    keep_each: tuple[int, int] | None = None,
    say: Say = print,
) -> None:
    """Say, for each value of the column that is joined on, how many rows of each table are kept, and what that loses.

    Two tables: keep so many rows of both together, drop so many, or keep a number of each; all exactly. Three tables
    or more: drop a number from each, which loses at most as many times the least as there are tables.
    """
    _check(files, keep, drop, keep_each)
    keys = [_keys(path, on) for path in files]
    values, counts = _counted(keys)
    if len(files) == 2 and len(drop) < 2:
        graph = Components(counts[0], counts[1])
        kept = _of_two(graph, keep, drop, keep_each)
        _tell(files, values, counts, np.stack([kept.of_a, kept.of_b]), say)
        return
    drops = [*drop, *[0] * (len(files) - len(drop))]
    dropped = drop_least_damaging(counts, drops)
    _tell(files, values, counts, counts - dropped.rows, say)
    say(f"any choice loses at least {dropped.at_least:,}; this one at most {len(files)} times the least")


def _check(files: Sequence[Path], keep: int | None, drop: Sequence[int], keep_each: tuple[int, int] | None) -> None:
    asked = [keep is not None, bool(drop), keep_each is not None]
    if len(files) < 2:
        raise SetupError("a join needs two tables or more", hint="watersmeet lab static A.csv B.csv --on k --keep 100")
    if sum(asked) != 1:
        raise SetupError(
            "say either how many rows to keep or how many to drop",
            hint="--keep N, --drop N, or --keep-each KA,KB; with three tables or more --drop N1,N2,…",
        )
    if len(files) > 2 and not drop:
        raise SetupError(
            f"which rows of {len(files)} tables to keep is NP-hard to tell; dropping is answered within a bound",
            hint="say how many rows to drop from each: --drop N1,N2,…",
        )
    if len(drop) > len(files) or (len(files) > 2 and len(drop) != len(files)):
        raise SetupError(
            f"--drop has {len(drop)} numbers for {len(files)} tables", hint="give one number for each table"
        )


def _of_two(graph: Components, keep: int | None, drop: Sequence[int], keep_each: tuple[int, int] | None) -> Components:
    if keep_each is not None:
        return retain_by_side(graph, *keep_each)
    return retain(graph, keep) if keep is not None else delete(graph, drop[0])


def _tell(files: Sequence[Path], values: Sequence[str], counts: Numbers, kept: Numbers, say: Say) -> None:
    names = [path.name for path in files]
    rows = [["value", *[f"{name} kept" for name in names], "results kept", "lost"]]
    results, left = counts.prod(axis=0), kept.prod(axis=0)
    for at in np.argsort(-results, kind="stable")[:SHOWN_VALUES]:
        of_each = [f"{k:,} of {n:,}" for k, n in zip(kept[:, at], counts[:, at], strict=True)]
        rows.append([values[at], *of_each, f"{left[at]:,}", f"{results[at] - left[at]:,}"])
    for line in aligned(rows, left=1):
        say(line)
    if results.size > SHOWN_VALUES:
        say(f"… and {results.size - SHOWN_VALUES:,} more values")
    of_all = [f"{k:,} of {n:,} rows of {name}" for k, n, name in zip(kept.sum(1), counts.sum(1), names, strict=True)]
    say(f"kept {', '.join(of_all)}")
    total, found = int(results.sum()), int(left.sum())
    share = f" ({found / total:.1%})" if total else ""
    say(f"{found:,} of {total:,} results kept{share}, {total - found:,} lost")


def _keys(path: Path, on: str) -> pa.Array:
    table = _read(path)
    if on not in table.column_names:
        raise DataError(f"{path.name} has no column {on!r} to join on; it has {', '.join(table.column_names)}")
    return as_array(table.column(on))


def _read(path: Path) -> pa.Table:
    try:
        match path.suffix.lower():
            case ".parquet":
                return pyarrow.parquet.read_table(path)
            case ".csv":
                return pyarrow.csv.read_csv(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    raise SetupError(f"{path} is neither Parquet nor CSV", hint="give a file that ends in .parquet or .csv")


def _counted(keys: Sequence[pa.Array]) -> tuple[list[str], Numbers]:
    """The values that occur, and how often each does in every table. NULLs meet nothing, so those of each table are a
    value of their own, at the end."""
    typed = [array for array in keys if not pa.types.is_null(array.type)]
    types = {str(array.type) for array in typed}
    if len(types) > 1:
        raise DataError(f"the columns to join on have different types: {', '.join(sorted(types))}")
    values = pc.unique(pa.concat_arrays(typed)).drop_null() if typed else pa.nulls(0)
    counts = np.zeros((len(keys), len(values) + len(keys)), np.int64)
    for number, array in enumerate(keys):
        nulls = int(array.null_count)
        if nulls < len(array):
            places = pc.index_in(array.drop_null(), values).to_numpy(zero_copy_only=False)
            counts[number] = np.bincount(places, minlength=counts.shape[1])
        counts[number, len(values) + number] = nulls
    used = np.flatnonzero(counts.any(axis=0))
    names = [*map(str, values.to_pylist()), *["NULL"] * len(keys)]
    return [names[at] for at in used], counts[:, used]
