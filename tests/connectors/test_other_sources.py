"""A checkpoint knows places in one kind of source: another is refused in a sentence, and the old one still goes on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.connectors.shelf import COLUMNS, SHELF, put
from watersmeet.errors import RunError
from watersmeet.io.connectors import registry

ROWS = pa.table(
    {"id": [1, 2], "k": [1, 1], "v": [0.5, 1.5], "ts": pa.array([0, 1_000_000], pa.timestamp("us"))}, COLUMNS
)
KINDS = {
    "rows": "rows at hand",
    "path": "files of a path",
    "address": "files of an address",
    "shelf": "shelf",
    "history": "a history, then shelf",
}


@pytest.fixture(autouse=True)
def _shelf() -> Iterator[None]:
    registry.register(SHELF)
    yield
    registry.forget("shelf")


def stream_of(kind: str, folder: Path) -> dict[str, Any]:
    shelf = {"source": "shelf", "folder": str(folder / "shelf"), "schema": COLUMNS}
    match kind:
        case "rows":
            return {"data": ROWS}
        case "path":
            return {"source": "parquet", "path": str(folder / "files")}
        case "address":
            return {"source": "parquet", "path": f"file://{folder}/files"}
        case "shelf":
            return shelf
    return {**shelf, "history": "parquet", "history_path": str(folder / "files"), "handover": "start"}


def answers(kind: str, folder: Path) -> int:
    session = wm.Session()
    session.stream("s", time="ts", lateness="1 minute", **stream_of(kind, folder))
    with session.sql("SELECT id FROM s").start(checkpoint=folder / "state", available_now=True) as run:
        return sum(batch.num_rows for batch in run)


@pytest.mark.filterwarnings("ignore:handover")
@pytest.mark.parametrize(("before", "then"), list(permutations(KINDS, 2)))
def test_another_kind_of_source_is_refused_and_the_old_one_goes_on(before: str, then: str, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    pq.write_table(ROWS, tmp_path / "files" / "1.parquet")
    put(tmp_path / "shelf", "one", ROWS)
    assert answers(before, tmp_path) == (4 if before == "history" else 2)
    for _ in range(2):
        with pytest.raises(RunError, match="stream 's' was read from") as told:
            answers(then, tmp_path)
        assert f"read from {KINDS[before]} by" in told.value.message
        assert f"read from {KINDS[then]} now" in told.value.message
    assert answers(before, tmp_path) == 0
