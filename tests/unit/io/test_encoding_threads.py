"""Rows that become text in several threads are the same bytes in the same order as in one, in files and records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.hosts.local.durable import outputs
from watersmeet.io import row_texts, writers
from watersmeet.io.connectors.kafka.encoding import CsvEncoder, JsonEncoder, json_records
from watersmeet.io.connectors.numbered_sinks import numbered_sink
from watersmeet.io.encoding_threads import encoded

ROWS = 1000


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_texts, "PIECE_ROWS", 64)


def rows(count: int = ROWS) -> pa.RecordBatch:
    rng = np.random.default_rng(3)
    values = {
        "id": np.arange(count),
        "v": pa.array(rng.random(count), mask=rng.random(count) < 0.1),
        "s": [f'{at} "x", y' for at in range(count)],
        "ts": pa.array(np.arange(count) * 1_000_000, pa.timestamp("us")),
    }
    return pa.record_batch(values)


@pytest.mark.parametrize("count", [0, 1, 64, 65, ROWS])
def test_pieces_come_in_the_order_of_their_rows(count: int) -> None:
    found = list(encoded(rows(count), lambda piece: piece.column("id").to_pylist(), 3))
    assert [one for piece in found for one in piece] == list(range(count))


def test_several_threads_are_at_it_at_once() -> None:
    together = threading.Barrier(3, timeout=60)
    assert len(list(encoded(rows(3 * 64), lambda piece: together.wait(), 3))) == 3


def test_so_many_pieces_are_ahead_and_no_more() -> None:
    begun: list[int] = []
    pieces = encoded(rows(), lambda piece: begun.append(piece.num_rows), 2)
    next(pieces)
    assert len(begun) <= 4
    pieces.close()


def test_what_goes_wrong_is_raised_and_no_thread_is_left() -> None:
    def refuse(piece: pa.RecordBatch) -> None:
        if piece.column("id")[0].as_py() == 128:
            raise ValueError("the third piece")

    before = threading.active_count()
    with pytest.raises(ValueError, match="the third piece"):
        list(encoded(rows(), refuse, 3))
    assert threading.active_count() == before


def test_records_are_those_of_one_thread() -> None:
    assert JsonEncoder(3).encode(rows()) == JsonEncoder().encode(rows()) == json_records(rows())
    assert CsvEncoder(";", 3).encode(rows()) == CsvEncoder(";").encode(rows())


@pytest.mark.parametrize("kind", ["json", "csv", "tsv"])
def test_files_are_those_of_one_thread(kind: str, tmp_path: Path, threads_asked: list[int]) -> None:
    found = []
    for threads in (1, 3):
        out = tmp_path / f"out{threads}.{kind}"
        session = wm.Session()
        session.stream("a", pa.Table.from_batches([rows()]), time="ts")
        options = f"OPTIONS (threads = {threads})"
        session.run(f"CREATE SINK out WITH (sink = '{kind}', path = '{out}') AS SELECT id, v, s, ts FROM a {options}")
        found.append(out.read_bytes())
    assert found[0] == found[1]
    assert found[0].count(b"\n") >= ROWS
    assert threads_asked == [1, 3]


def test_files_of_commits_are_those_of_one_thread(tmp_path: Path, threads_asked: list[int]) -> None:
    found = []
    for threads in (1, 3):
        folder = tmp_path / str(threads)
        sink = numbered_sink("out", {"sink": "json", "path": str(folder)}, rows().schema, "ab", threads=threads)
        for number in (0, 1):
            sink.commit(number, [rows().slice(500 * number, 500)])
        sink.close()
        found.append([one.read_bytes() for one in sorted(folder.glob("*.json"))])
    assert found[0] == found[1]
    assert list(map(len, found)) == [2, 2]
    assert threads_asked == [1, 1, 3, 3]


def test_a_run_with_a_checkpoint_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    session = wm.Session()
    session.stream("a", pa.Table.from_batches([rows()]), time="ts")
    said: dict[str, Any] = {}
    monkeypatch.setattr(outputs, "numbered_sink", lambda *given, **named: said.update(named))
    notes = SimpleNamespace(get=lambda name, default: default)
    committed = SimpleNamespace(answers=-1)
    checkpoint: Any = SimpleNamespace(notes=notes, run="ab", committed=lambda: committed, adds=False, follows=None)
    start: Any = None
    plan = session.sql("SELECT id FROM a OPTIONS (threads = 3)").plan
    outputs.sink_of(plan, "out", {"sink": "console"}, checkpoint, start)
    assert said["threads"] == 3


@pytest.fixture
def threads_asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """In how many threads each batch that was written might become text."""
    asked: list[int] = []

    def noted(batch: pa.RecordBatch, encode: Callable[[pa.RecordBatch], Any], threads: int) -> Iterator[Any]:
        asked.append(threads)
        return encoded(batch, encode, threads)

    monkeypatch.setattr(writers, "encoded", noted)
    return asked
