"""A small connector for tests: a shelf is a folder, its lanes are folders in it, and rows lie there in numbered files
of JSON lines. An offset is how many files of a lane were read. As a sink it writes one file for each number."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.io.connectors import registry
from watersmeet.io.connectors.contract import (
    Connector,
    Lot,
    Offsets,
    Options,
    SinkOpening,
    Slice,
    SourceOpening,
    TableOpening,
)

COLUMNS = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64()), ("ts", pa.timestamp("us"))])


@dataclass(frozen=True)
class ShelfSource:
    folder: str
    schema: pa.Schema
    start: str = "earliest"

    @property
    def description(self) -> str:
        return f"shelf {self.folder}"

    def begin(self) -> Offsets:
        return self._ends() if self.start == "latest" else {}

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        ends = self._ends()
        if most_rows is None:
            return ends
        # A file has few rows here, so one more of each lane is never too many.
        return {lane: min(end, after.get(lane, 0) + 1) for lane, end in ends.items()}

    def slices(self, after: Offsets, upto: Offsets) -> list[Slice]:
        return [Slice(lane, after.get(lane, 0), end) for lane, end in upto.items() if end > after.get(lane, 0)]

    def read(self, part: Slice) -> Iterator[Lot]:
        for number in range(part.after, part.upto):
            path = Path(self.folder) / part.lane / f"{number}.json"
            if not path.exists():
                raise SourceError(f"{path} is gone", hint="put it back")
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            arrays = [pa.array([row.get(field.name) for row in rows]).cast(field.type) for field in self.schema]
            yield Lot(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def close(self) -> None:
        pass

    def _ends(self) -> dict[str, int]:
        folder = Path(self.folder)
        if not folder.is_dir():
            raise SourceError(f"there is no shelf {folder}")
        return {lane.name: len(list(lane.glob("[0-9]*.json"))) for lane in sorted(folder.iterdir()) if lane.is_dir()}


class ShelfSink:
    def __init__(self, opening: SinkOpening) -> None:
        self._folder = Path(opening.options["folder"])
        self._run = opening.run
        self.opening = opening
        self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def last_number(self) -> int:
        return max(
            (int(path.stem.rpartition("-")[2]) for path in self._folder.glob(f"{self._run}-*.arrow")), default=-1
        )

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number <= self.last_number:
            return
        draft = self._folder / ".draft"
        with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, self.opening.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        draft.replace(self._folder / f"{self._run}-{number}.arrow")

    def close(self) -> None:
        pass


def open_source(opening: SourceOpening) -> ShelfSource:
    return ShelfSource(opening.options["folder"], opening.columns or COLUMNS, opening.options.get("start", "earliest"))


def open_table(opening: TableOpening) -> pa.Table:
    source = ShelfSource(opening.options["folder"], opening.columns or COLUMNS)
    lots = [lot.rows for part in source.slices({}, source.newest({})) for lot in source.read(part)]
    return pa.Table.from_batches(lots, schema=source.schema)


SHELF = Connector(
    "shelf",
    source=open_source,
    sink=ShelfSink,
    table=open_table,
    source_options=Options(("folder", "start"), prefixes=("shelf.",), secret=("shelf.password",)),
    sink_options=Options(("folder",)),
    table_options=Options(("folder",)),
)


def register() -> None:
    registry.register(SHELF)


def put(folder: Path, lane: str, rows: pa.Table) -> None:
    """Lay some rows on a shelf, as the next file of a lane."""
    lane_folder = folder / lane
    lane_folder.mkdir(parents=True, exist_ok=True)
    number = len(list(lane_folder.glob("[0-9]*.json")))
    draft = lane_folder / ".draft"
    draft.write_text("".join(json.dumps(_plain(row)) + "\n" for row in rows.to_pylist()))
    draft.replace(lane_folder / f"{number}.json")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value.isoformat() if hasattr(value, "isoformat") else value for key, value in row.items()}


def written(folder: Path) -> pa.Table:
    """All rows that a sink has taken, in the order of their numbers."""
    files = sorted(folder.glob("*.arrow"), key=lambda path: int(path.stem.rpartition("-")[2]))
    tables = [pa.ipc.open_file(pa.OSFile(str(path))).read_all() for path in files]
    return pa.concat_tables(tables)
