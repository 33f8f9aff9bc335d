"""A connector as a user would bring one: partitions are files of JSON lines that grow, its sink a table of SQLite."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from watersmeet.errors import SinkError, SourceError
from watersmeet.io.connectors.contract import (
    BAD_RECORDS,
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

ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
LOT = 7


@dataclass(frozen=True)
class ToySource(PartitionedSource):
    """A partition is a file, an offset the number of its lines that were read."""

    folder: str
    schema: pa.Schema
    start: str = "earliest"
    fault: str = ""

    @property
    def description(self) -> str:
        return f"toy {self.folder}"

    def begin(self) -> Offsets:
        return {} if self.start == "earliest" else self.newest({})

    def newest(self, after: Offsets, most_rows: int | None = None) -> Offsets:
        self._fail("newest")
        die_at("newest", self.folder)
        left = most_rows
        reached: dict[str, int] = {}
        for partition, lines in self._partitions().items():
            before = after.get(partition, 0)
            reached[partition] = len(lines) if left is None else min(len(lines), before + left)
            left = None if left is None else left - (reached[partition] - before)
        return {**after, **reached}

    def splits(self, after: Offsets, upto: Offsets) -> list[Split]:
        parts = ((partition, after.get(partition, 0), end) for partition, end in sorted(upto.items()))
        return [Split(partition, begin, end) for partition, begin, end in parts if begin < end]

    def read(self, split: Split) -> Iterator[SourceBatch]:
        self._fail("read")
        die_at("read", self.folder)
        lines = self._partitions()[split.partition]
        for begin in range(split.after or 0, split.upto, LOT):
            numbers = range(begin, min(begin + LOT, split.upto))
            good = [n for n in numbers if lines[n].startswith("{")]
            bad = [n for n in numbers if n not in good]
            yield SourceBatch(
                _columns([json.loads(lines[n]) for n in good], self.schema), self._bad(split.partition, lines, bad)
            )

    def _partitions(self) -> dict[str, list[str]]:
        if not Path(self.folder).is_dir():
            raise SourceError(f"there is no folder {self.folder}", hint="make it first")
        return {one.stem: one.read_text().splitlines() for one in sorted(Path(self.folder).glob("*.jsonl"))}

    def _bad(self, partition: str, lines: Sequence[str], numbers: Sequence[int]) -> pa.RecordBatch | None:
        if not numbers:
            return None
        rows = [
            {
                "stream": "toy",
                "reason": "not JSON",
                "detail": f"{lines[n]!r} is no object",
                "place": f"{self.folder}/{partition}.jsonl",
                "partition": int(partition),
                "offset": n,
                "raw": lines[n].encode(),
            }
            for n in numbers
        ]
        return pa.RecordBatch.from_pylist(rows, BAD_RECORDS)

    def _fail(self, call: str) -> None:
        if self.fault == f"{call} says":
            raise SourceError("the other end is closed", hint="open it")
        if self.fault == f"{call} breaks":
            raise KeyError("nobody thought of this")


def _columns(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """As JSON has them: timestamps are microseconds."""
    columns = [pa.array([row[field.name] for row in rows], pa.int64()).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class ToySink(NumberedSink):
    """Rows as JSON with the number of their batch; rows and number in one transaction."""

    def __init__(self, opening: SinkOpening) -> None:
        self.opening = opening
        self._database = sqlite3.connect(opening.options["file"], check_same_thread=False)
        self._database.execute("CREATE TABLE IF NOT EXISTS answers (run TEXT, number INTEGER, row TEXT)")
        self._database.execute("CREATE TABLE IF NOT EXISTS opened (run TEXT, keys TEXT, changes TEXT)")
        opened = (opening.run, ",".join(opening.keys), opening.changes)
        self._database.execute("INSERT INTO opened VALUES (?, ?, ?)", opened)
        self._database.commit()

    def committed(self) -> int:
        found = self._database.execute("SELECT max(number) FROM answers WHERE run = ?", (self.opening.run,)).fetchone()
        return -1 if found[0] is None else int(found[0])

    def commit(self, number: int, rows: Sequence[pa.RecordBatch]) -> None:
        if self.opening.options.get("fault") == "full":
            raise SinkError("the other end is full", hint="empty it; nothing is lost")
        if number <= self.committed():
            return
        lines = [json.dumps(row, default=str) for batch in rows for row in batch.to_pylist()]
        file = self.opening.options["file"]
        die_at("before a commit", file)
        with self._database:
            self._database.executemany(
                "INSERT INTO answers VALUES (?, ?, ?)", [(self.opening.run, number, line) for line in lines]
            )
            die_at("in a commit", file)
        die_at("after a commit", file)

    def close(self) -> None:
        self._database.close()


STEPS = ("newest", "read", "before a commit", "in a commit", "after a commit")


def die_at(step: str, beside: str) -> None:
    """End this process at once, if a file beside says so: at which step, and after how many of them."""
    order = Path(beside).parent / "die.json"
    if not order.exists():
        return
    told = json.loads(order.read_text())
    if told["step"] != step:
        return
    if told["after"]:
        order.write_text(json.dumps({**told, "after": told["after"] - 1}))
        return
    order.unlink()
    os.kill(os.getpid(), signal.SIGKILL)


def open_source(opening: SourceOpening) -> ToySource:
    options = opening.options
    schema = ROWS if opening.columns is None else opening.columns
    return ToySource(
        str(Path(options["folder"]).absolute()), schema, options.get("start", "earliest"), options.get("fault", "")
    )


def open_table(opening: TableOpening) -> pa.Table:
    lines = Path(opening.options["file"]).read_text().splitlines()
    return pa.Table.from_pylist([json.loads(line) for line in lines])


TOY = Connector(
    "toy",
    source=open_source,
    sink=ToySink,
    table=open_table,
    source_options=Options(("folder", "start", "fault")),
    sink_options=Options(("file", "fault")),
    table_options=Options(("file",)),
)


def add(folder: Path, partition: int, rows: Sequence[tuple[int, int, int | None] | str]) -> None:
    """More lines of a partition: rows, or text that is none."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{partition}.jsonl").open("a") as file:
        for row in rows:
            text = row if isinstance(row, str) else json.dumps(dict(zip(("k", "v", "ts"), row, strict=True)))
            file.write(text + "\n")


def taken(file: Path) -> list[dict[str, Any]]:
    """The rows that a sink has, of all runs."""
    with sqlite3.connect(file) as database:
        return [json.loads(row) for (row,) in database.execute("SELECT row FROM answers ORDER BY rowid")]
