"""A small connector for tests: a rack is a folder, its partitions are files of JSON lines in it, and an offset is how
many lines of a partition were read. Lines that are no JSON are bad records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from watersmeet.io.connectors.contract import (
    BAD_RECORDS,
    Connector,
    Offsets,
    Options,
    PartitionedSource,
    SourceBatch,
    SourceOpening,
    Split,
)

COLUMNS = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us"))])
LINES_OF_A_LOT = 7


@dataclass(frozen=True)
class RackSource(PartitionedSource):
    name: str
    folder: str
    schema: pa.Schema = COLUMNS

    @property
    def description(self) -> str:
        return f"rack {self.folder}"

    def begin(self) -> Offsets:
        return {}

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        ends = {
            path.stem: len(path.read_bytes().splitlines()) for path in sorted(Path(self.folder).glob("*.partition"))
        }
        if most_rows is None:
            return ends
        return {partition: min(end, after.get(partition, 0) + 10) for partition, end in ends.items()}

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        return [
            Split(partition, after.get(partition, 0), end)
            for partition, end in upto.items()
            if end > after.get(partition, 0)
        ]

    def read(self, split: Split) -> Iterator[SourceBatch]:
        lines = (Path(self.folder) / f"{split.partition}.partition").read_bytes().splitlines()
        for start in range(split.after, split.upto, LINES_OF_A_LOT):
            yield self._batch(split.partition, lines[start : min(start + LINES_OF_A_LOT, split.upto)], start)

    def _batch(self, partition: str, lines: list[bytes], start: int) -> SourceBatch:
        rows, bad = [], []
        for number, line in enumerate(lines, start):
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                bad.append((self.name, "not json", str(error), f"rack {partition}", int(partition), number, line))
        arrays = [pa.array([row.get(field.name) for row in rows]).cast(field.type) for field in self.schema]
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if not bad:
            return SourceBatch(made)
        columns = [pa.array(one, field.type) for one, field in zip(zip(*bad, strict=True), BAD_RECORDS, strict=True)]
        return SourceBatch(made, pa.RecordBatch.from_arrays(columns, schema=BAD_RECORDS))


def _open(opening: SourceOpening) -> RackSource:
    return RackSource(opening.name, opening.options["folder"], opening.columns or COLUMNS)


RACK = Connector("rack", source=_open, source_options=Options(("folder",)))


def line(id: int, k: int, us: int) -> str:
    return json.dumps({"id": id, "k": k, "ts": us})


def put(folder: Path, partition: str, lines: list[str]) -> None:
    """Lay lines at the end of a partition, whole."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{partition}.partition"
    before = path.read_text() if path.exists() else ""
    draft = folder / f".{partition}"
    draft.write_text(before + "".join(f"{one}\n" for one in lines))
    draft.replace(path)
