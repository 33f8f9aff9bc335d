"""A small connector for tests: a shelf is a folder, its partitions are folders in it, and rows lie there in numbered
files of JSON lines. An offset is how many files of a partition were read. A sink writes one file for each number."""

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
    NumberedSink,
    Offsets,
    Options,
    PartitionedSource,
    SinkOpening,
    SourceBatch,
    SourceOpening,
    Split,
    TableOpening,
)

COLUMNS = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.float64()), ("ts", pa.timestamp("us"))])


@dataclass(frozen=True)
class ShelfSource(PartitionedSource):
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
        # A file has few rows here, so one more of each partition is never too many.
        return {partition: min(end, after.get(partition, 0) + 1) for partition, end in ends.items()}

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        return [
            Split(partition, after.get(partition, 0), end)
            for partition, end in upto.items()
            if end > after.get(partition, 0)
        ]

    def read(self, split: Split) -> Iterator[SourceBatch]:
        for number in range(split.after, split.upto):
            path = Path(self.folder) / split.partition / f"{number}.json"
            if not path.exists():
                raise SourceError(f"{path} is gone", hint="put it back")
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            arrays = [pa.array([row.get(field.name) for row in rows]).cast(field.type) for field in self.schema]
            yield SourceBatch(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def _ends(self) -> dict[str, int]:
        folder = Path(self.folder)
        if not folder.is_dir():
            raise SourceError(f"there is no shelf {folder}")
        return {
            partition.name: len(list(partition.glob("[0-9]*.json")))
            for partition in sorted(folder.iterdir())
            if partition.is_dir()
        }


class ShelfSink(NumberedSink):
    def __init__(self, opening: SinkOpening) -> None:
        self._folder = Path(opening.options["folder"])
        self._run = opening.run
        self.opening = opening
        self._folder.mkdir(parents=True, exist_ok=True)

    def committed(self) -> int:
        return max(
            (int(path.stem.rpartition("-")[2]) for path in self._folder.glob(f"{self._run}-*.arrow")), default=-1
        )

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if number <= self.committed():
            return
        draft = self._folder / ".draft"
        with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, self.opening.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        draft.replace(self._folder / f"{self._run}-{number}.arrow")


def open_source(opening: SourceOpening) -> ShelfSource:
    return ShelfSource(opening.options["folder"], opening.columns or COLUMNS, opening.options.get("start", "earliest"))


def open_table(opening: TableOpening) -> pa.Table:
    source = ShelfSource(opening.options["folder"], opening.columns or COLUMNS)
    batches = [batch.rows for split in source.splits({}, source.newest({})) for batch in source.read(split)]
    return pa.Table.from_batches(batches, schema=source.schema)


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


def put(folder: Path, partition: str, rows: pa.Table) -> None:
    """Lay some rows on a shelf, as the next file of a partition."""
    partition_folder = folder / partition
    partition_folder.mkdir(parents=True, exist_ok=True)
    number = len(list(partition_folder.glob("[0-9]*.json")))
    draft = partition_folder / ".draft"
    draft.write_text("".join(json.dumps(_plain(row)) + "\n" for row in rows.to_pylist()))
    draft.replace(partition_folder / f"{number}.json")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value.isoformat() if hasattr(value, "isoformat") else value for key, value in row.items()}


def written(folder: Path) -> pa.Table:
    """All rows that a sink has taken, in the order of their numbers."""
    files = sorted(folder.glob("*.arrow"), key=lambda path: int(path.stem.rpartition("-")[2]))
    tables = [pa.ipc.open_file(pa.OSFile(str(path))).read_all() for path in files]
    return pa.concat_tables(tables)
