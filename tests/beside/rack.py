"""A small connector for tests: a rack is a folder, its lanes are files of JSON lines in it, and an offset is how many
lines of a lane were read. Lines that are no JSON are bad records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from watersmeet.io.connectors.contract import BAD_RECORDS, Connector, Lot, Offsets, Options, Slice, SourceOpening

COLUMNS = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us"))])
LINES_OF_A_LOT = 7


@dataclass(frozen=True)
class RackSource:
    name: str
    folder: str
    schema: pa.Schema = COLUMNS

    @property
    def description(self) -> str:
        return f"rack {self.folder}"

    def begin(self) -> Offsets:
        return {}

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        ends = {path.stem: len(path.read_bytes().splitlines()) for path in sorted(Path(self.folder).glob("*.lane"))}
        if most_rows is None:
            return ends
        return {lane: min(end, after.get(lane, 0) + 10) for lane, end in ends.items()}

    def slices(self, after: Offsets, upto: Offsets) -> list[Slice]:
        return [Slice(lane, after.get(lane, 0), end) for lane, end in upto.items() if end > after.get(lane, 0)]

    def read(self, part: Slice) -> Iterator[Lot]:
        lines = (Path(self.folder) / f"{part.lane}.lane").read_bytes().splitlines()
        for start in range(part.after, part.upto, LINES_OF_A_LOT):
            yield self._lot(part.lane, lines[start : min(start + LINES_OF_A_LOT, part.upto)], start)

    def _lot(self, lane: str, lines: list[bytes], start: int) -> Lot:
        rows, bad = [], []
        for number, line in enumerate(lines, start):
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                bad.append((self.name, "not json", str(error), f"rack {lane}", int(lane), number, line))
        arrays = [pa.array([row.get(field.name) for row in rows]).cast(field.type) for field in self.schema]
        made = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if not bad:
            return Lot(made)
        columns = [pa.array(one, field.type) for one, field in zip(zip(*bad, strict=True), BAD_RECORDS, strict=True)]
        return Lot(made, pa.RecordBatch.from_arrays(columns, schema=BAD_RECORDS))

    def close(self) -> None:
        pass


def _open(opening: SourceOpening) -> RackSource:
    return RackSource(opening.name, opening.options["folder"], opening.columns or COLUMNS)


RACK = Connector("rack", source=_open, source_options=Options(("folder",)))


def line(id: int, k: int, us: int) -> str:
    return json.dumps({"id": id, "k": k, "ts": us})


def put(folder: Path, lane: str, lines: list[str]) -> None:
    """Lay lines at the end of a lane, whole."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{lane}.lane"
    before = path.read_text() if path.exists() else ""
    draft = folder / f".{lane}"
    draft.write_text(before + "".join(f"{one}\n" for one in lines))
    draft.replace(path)
