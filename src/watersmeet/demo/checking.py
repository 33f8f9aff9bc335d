"""Some of the answer, and whether it is right: the reference tries every combination of a slice."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from watersmeet.demo.traffic import is_late
from watersmeet.plan.query import Plan
from watersmeet.reference.join import answer

SLICE_ROWS = 200  # about so many rows of each camera are checked
SAMPLE_ROWS = 8


def sample(tracks: pa.Table) -> str:
    """A few rows from all over the answer, as aligned text."""
    shown = tracks.take(pa.array(np.linspace(0, tracks.num_rows, SAMPLE_ROWS, endpoint=False, dtype=np.int64)))
    texts = [_texts(shown[name]) for name in shown.column_names]
    widths = [max(map(len, (name, *cells))) for name, cells in zip(shown.column_names, texts, strict=True)]
    rows = [tuple(shown.column_names), *zip(*texts, strict=True)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)


def _texts(column: pa.ChunkedArray) -> list[str]:
    if pa.types.is_timestamp(column.type):
        column = pc.strftime(pc.cast(column, pa.timestamp("ms"), safe=False), format="%H:%M:%S")
    return [str(value) for value in column.to_pylist()]


def sliced(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The rows of one object in so many, without those of which a row may count as late. The join is on the object,
    so its answer over the slice is that slice of its answer."""
    one_in = max(1, max(table.num_rows for table in tables.values()) // SLICE_ROWS)
    late = np.concatenate([table["object"].to_numpy()[is_late(table)] for table in tables.values()])
    return {camera: _one_in(table, one_in, late) for camera, table in tables.items()}


def _one_in(table: pa.Table, one_in: int, late: np.ndarray) -> pa.Table:
    objects = table["object"].to_numpy()
    return table.filter(pa.array((objects % one_in == 0) & ~np.isin(objects, late)))


def check(console: Console, plan: Plan, chosen: dict[str, pa.Table], tracks: pa.Table) -> bool:
    """Tell whether the answer over the chosen rows is the reference's."""
    objects = pa.chunked_array(pc.unique(pa.concat_arrays([c for t in chosen.values() for c in t["object"].chunks])))
    found = tracks.filter(pc.is_in(tracks["object"], objects))
    expected = answer(plan, chosen)
    given = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    rows = sum(table.num_rows for table in chosen.values())
    agreed = Counter(given) == Counter(expected) and len(expected) > 0
    verdict = "they agree." if agreed else "THEY DIFFER."
    console.print(f"The slow reference tries every combination of {rows} of the rows and finds {len(expected)}")
    console.print(f"tracks; of the same objects the join found {len(given)}: {verdict}")
    return agreed
