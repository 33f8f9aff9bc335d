"""`watersmeet merge`: many small files become few, and whoever reads, writes, or is killed at any moment has each row
once."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pytest

import watersmeet as wm
from tests.forked import forked
from tests.unit.cli.test_commands import call
from watersmeet.errors import SinkError, SourceError
from watersmeet.io.connectors.claims import new_start
from watersmeet.io.connectors.contract import NumberedSink, SinkOpening
from watersmeet.io.connectors.files import merging
from watersmeet.io.connectors.files.sink import files_sink, folder_sink

SCHEMA = pa.schema(
    [("id", pa.int64()), ("k", pa.string()), ("spent", pa.decimal128(9, 2)), ("took", pa.duration("us"))]
)
FLAT = pa.schema([("id", pa.int64()), ("k", pa.string())])
KINDS = ("parquet", "json", "csv", "tsv")
RUN = "0a1b2c3d"
LARGE = 1 << 20
TOKENS: list[str] = []


@pytest.fixture(autouse=True)
def _readers_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "GRACE_S", 0.0)


def schema_of(kind: str) -> pa.Schema:
    return SCHEMA if kind == "parquet" else FLAT


def rows(number: int, schema: pa.Schema) -> pa.RecordBatch:
    """Three rows of a batch, one with a text that spans lines."""
    ids = [3 * number + i for i in range(3)]
    made = [{"id": one, "k": ["x", 'a "b",\nc', "y"][one % 3], "spent": None, "took": one} for one in ids]
    return pa.RecordBatch.from_pylist([{name: one[name] for name in schema.names} for one in made], schema)


def opened(folder: Path, kind: str, **options: str) -> NumberedSink:
    start = new_start(TOKENS)  # of a checkpoint that knows all starts before
    TOKENS.append(start.token)
    opening = SinkOpening("s", {"mode": "append", **options}, schema_of(kind), RUN, start=start)
    return folder_sink(opening, folder, kind)


def written(folder: Path, kind: str, numbers: range, **options: str) -> NumberedSink:
    sink = opened(folder, kind, **options)
    for number in numbers:
        sink.commit(number, [rows(number, schema_of(kind))])
    return sink


def visible(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("part-*") if path.is_file())


def ids_in(folder: Path, kind: str, *, header: bool = True) -> Counter[int]:
    """As another reader finds them."""
    import duckdb

    read = {
        "parquet": f"read_parquet('{folder}/**/part-*')",
        "json": f"read_json('{folder}/**/part-*', format = 'newline_delimited')",
    }
    delim = "\t" if kind == "tsv" else ","
    text = (
        f"read_csv('{folder}/**/part-*', delim = '{delim}', header = {header}, columns = {{id: 'BIGINT', k: 'TEXT'}})"
    )
    connection = duckdb.connect()
    try:
        found = connection.execute(f"SELECT id FROM {read.get(kind, text)}").fetchall()
    finally:
        connection.close()
    return Counter(one for (one,) in found)


def up_to(number: int) -> Counter[int]:
    return Counter(range(3 * number))


# ---- what is merged -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_small_files_become_one_with_the_same_rows_and_the_sink_goes_on_behind_it(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    sink = written(folder, kind, range(20))
    before = pa_dataset.dataset(folder, format="parquet").to_table() if kind == "parquet" else None
    (one,) = merging.merge(folder, LARGE)
    assert (len(one.parts), visible(folder)) == (20, [one.into])
    assert one.into == f"part-{RUN}-{19:015d}.from-{0:015d}.{kind}"
    if before is not None:
        after = pa_dataset.dataset(folder, format="parquet").to_table()
        assert after.schema == before.schema
        assert after.sort_by("id").equals(before.sort_by("id"))
    assert ids_in(folder, kind) == up_to(20)
    sink.commit(20, [rows(20, schema_of(kind))])
    sink.commit(5, [rows(5, schema_of(kind))])  # which it has
    again = opened(folder, kind)
    assert again.committed() == 20
    again.commit(21, [rows(21, schema_of(kind))])
    assert ids_in(folder, kind) == up_to(22)
    (second,) = merging.merge(folder, LARGE)
    assert second.into == f"part-{RUN}-{21:015d}.from-{0:015d}.{kind}"
    assert ids_in(folder, kind) == up_to(22)
    assert merging.merge(folder, LARGE) == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not (folder / merging.MARK).exists()


def test_text_without_headers_keeps_first_rows_that_are_alike(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    sink = opened(folder, "csv", header="false")
    same = pa.RecordBatch.from_pylist([{"id": 7, "k": "x"}], FLAT)
    for number in range(6):
        sink.commit(number, [same])
    assert len(merging.merge(folder, LARGE)) == 1
    assert ids_in(folder, "csv", header=False) == Counter({7: 6})


def test_files_of_other_columns_runs_folders_and_sizes_stay_apart(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    written(folder, "csv", range(4))
    wider = pa.schema([*FLAT, ("more", pa.int64())])
    other = folder_sink(SinkOpening("s", {"mode": "append"}, wider, RUN, start=new_start(["x"])), tmp_path / "b", "csv")
    for number in range(4, 8):
        other.commit(number, [pa.RecordBatch.from_pylist([{"id": number, "k": "x", "more": 1}], wider)])
    for name in visible(tmp_path / "b"):
        (tmp_path / "b" / name).replace(folder / name)
    (folder / "thesis.csv").write_text("id,k\n1,x\n")
    (folder / f"part-{RUN}-{8:015d}.csv").write_text("id,k,more\n" + "9,x,1\n" * 1000)
    (folder / f"part-ffff-{1:015d}.csv").write_text("id,k\n1,x\n")
    merges = merging.merge(folder, 8000)
    assert [len(one.parts) for one in merges] == [4, 4]
    assert {path.name for path in folder.glob("*.csv")} == {
        *(one.into for one in merges), "thesis.csv", f"part-{RUN}-{8:015d}.csv", f"part-ffff-{1:015d}.csv",
    }  # fmt: skip


def test_folders_of_values_are_merged_each_for_itself(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    sink = written(folder, "json", range(9), partition_by="k")
    merges = merging.merge(folder, LARGE)
    assert [len(one.parts) for one in merges] == [9, 9, 9]
    assert {one.into.split("/")[0][:2] for one in merges} == {"k="}
    sink.commit(9, [rows(9, FLAT)])
    assert ids_in(folder, "json") == up_to(10)
    assert opened(folder, "json", partition_by="k").committed() == 9


@pytest.mark.parametrize("parted", [False, True])
def test_the_sink_files_goes_on_behind_it_and_a_commit_that_was_cut_short_is_left_out(
    parted: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    options = {"path": str(folder), "format": "json", **({"partition_by": "k"} if parted else {})}

    def opened_anew() -> NumberedSink:
        start = new_start(TOKENS)
        TOKENS.append(start.token)
        return files_sink(SinkOpening("s", {"mode": "append", **options}, FLAT, RUN, start=start))

    sink = opened_anew()
    for number in range(8):
        sink.commit(number, [rows(number, FLAT)])
    if parted:  # a kill before the mark that says that batch 8 is there
        cut_short = folder / "k=x" / f"part-{RUN}-{8:015d}.json"
        cut_short.write_text('{"id": 24}\n')
    assert [len(one.parts) for one in merging.merge(folder, LARGE)] == ([8, 8, 8] if parted else [8])
    sink = opened_anew()
    assert sink.committed() == 7
    sink.commit(8, [rows(8, FLAT)])
    assert ids_in(folder, "json") == up_to(9)
    merging.merge(folder, LARGE)
    sink.commit(9, [rows(9, FLAT)])
    assert ids_in(folder, "json") == up_to(10)


def test_what_cannot_be_merged_says_what_does(tmp_path: Path) -> None:
    (tmp_path / "spark" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    for name, hint in {"spark": "sink = 'files'", "delta": "compact_every", "none": "name the path of a sink"}.items():
        with pytest.raises(SinkError) as refused:
            merging.merge(tmp_path / name, LARGE)
        assert hint in str(refused.value.hint)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_exchanged_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    written(folder, "json", range(5))
    before = visible(folder)

    def cannot(one: Path, other: Path) -> None:
        raise SinkError(f"{other} cannot be replaced")

    monkeypatch.setattr(merging, "exchange", cannot)
    with pytest.raises(SinkError, match="cannot be replaced"):
        merging.merge(folder, LARGE)
    assert visible(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_command_tells_what_it_would_do_and_does_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    written(folder, "json", range(12))
    before = visible(folder)
    assert call("merge", str(folder), "--dry-run", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["merged"], [one["files"] for one in told["folders"][str(folder)]]) == (False, [before])
    assert call("merge", str(folder), "--dry-run") == 0
    assert "12 files would become 1" in capsys.readouterr().out
    assert visible(folder) == before
    assert call("merge", str(folder)) == 0
    assert "12 files became 1" in capsys.readouterr().out
    assert call("merge", str(folder)) == 0
    assert "no small files follow each other" in capsys.readouterr().out
    assert ids_in(folder, "json") == up_to(12)
    assert call("merge", str(folder), "--target", "3 rows") == 2


# ---- while others read and write ------------------------------------------------------------------------------------


def seen(folder: Path) -> list[int]:
    """What a reader sees that lists the folder, then opens what it has found; again if that is not there any more."""
    while True:
        try:
            texts = [(folder / name).read_text() for name in os.listdir(folder) if name.startswith("part-")]
        except FileNotFoundError:
            continue
        return sorted(json.loads(line)["id"] for text in texts for line in text.splitlines())


def test_readers_have_each_row_once_at_every_moment_while_a_run_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "GRACE_S", 0.1)
    folder, done, wrong = tmp_path / "out", threading.Event(), list[list[int]]()
    sink = written(folder, "json", range(10))

    def write() -> None:
        for number in range(10, 150):
            sink.commit(number, [rows(number, FLAT)])
            time.sleep(0.01)
        done.set()

    def read() -> None:
        while not done.is_set():
            found = seen(folder)
            if found != list(range(len(found))) or len(found) < 30:
                wrong.append(found)

    threads = [threading.Thread(target=one) for one in (write, read, read)]
    for one in threads:
        one.start()
    merges = 0
    while not done.is_set():
        merges += len(merging.merge(folder, LARGE))
    for one in threads:
        one.join()
    assert not wrong
    assert merges > 5
    assert seen(folder) == list(range(450))


def test_a_run_with_a_checkpoint_is_merged_behind_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def start() -> wm.Run:
        session = wm.Session()
        session.stream("a", schema={"id": "BIGINT", "ts": "TIMESTAMP"}, time="ts")
        query = session.sql("SELECT id FROM a")
        sink = {"sink": "json", "path": str(folder)}
        return query.start(checkpoint=tmp_path / "ck", sink=sink, commit_every="0 s")

    def push(run: wm.Run, numbers: range) -> None:
        for number in numbers:
            run.push("a", [{"id": number, "ts": f"2026-01-01 12:{number // 60:02}:{number % 60:02}"}])

    for life in range(3):
        with start() as run:
            push(run, range(100 * life, 100 * life + 50))
            merging.merge(folder, LARGE) if folder.exists() else None
            push(run, range(100 * life + 50, 100 * life + 100))
            run.stop()
        merging.merge(folder, LARGE)
    assert seen(folder) == list(range(300))


@pytest.mark.parametrize("lives", [1, 2])
def test_a_stream_that_has_read_the_files_ends_with_a_sentence_and_reads_no_row_twice(
    lives: int, tmp_path: Path
) -> None:
    folder, found = tmp_path / "out", list[int]()
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))])
    sink = folder_sink(SinkOpening("s", {}, schema, RUN, start=new_start([])), folder, "parquet")
    for number in range(5):
        sink.commit(number, [pa.RecordBatch.from_pylist([{"id": number, "ts": number}], schema)])

    def start() -> wm.Run:
        session = wm.Session()
        session.stream("a", str(folder), time="ts")
        return session.sql("SELECT id FROM a").start(
            checkpoint=tmp_path / "ck", on_answer=lambda batch: found.extend(batch.column("id").to_pylist())
        )

    def merged_amid(run: wm.Run) -> None:
        deadline = time.monotonic() + 60
        while len(found) < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        if lives == 2:
            run.stop()
        merging.merge(folder, LARGE)

    def read() -> None:
        for _ in range(lives):
            with start() as run:
                if not (folder / f"part-{RUN}-{4:015d}.from-{0:015d}.parquet").exists():
                    merged_amid(run)
                run.wait(60)

    with pytest.raises(SourceError, match="holds rows that stream 'a' has read, of files that were merged"):
        read()
    assert found == list(range(5))


# ---- kills ----------------------------------------------------------------------------------------------------------

STEPS = ("_write_merged", "_link", "_unlink", "write_whole", "sync", "exchange", "_bring_over", "_remove_before")


def dying(folder: str, ends_after: int) -> None:
    """Merges, and is killed between two steps; or amid the removal of what was there before."""
    left = [ends_after]

    def step() -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def between(do: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*given: Any, **named: Any) -> Any:
            step()
            found = do(*given, **named)
            step()
            return found

        return stepped

    merging.GRACE_S = 0.0
    for name in STEPS:
        setattr(merging, name, between(getattr(merging, name)))
    remove = os.unlink

    def removing(path: Any, **named: Any) -> None:
        step()
        remove(path, **named)

    os.unlink = removing  # type: ignore[assignment]
    merging.merge(Path(folder), LARGE)


def kills() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def test_a_kill_between_any_two_steps_leaves_it_right_and_the_next_merge_ends_it(tmp_path: Path) -> None:
    died = 0
    for number in kills():
        above = tmp_path / str(number)
        folder = above / "out"
        sink = written(folder, "json", range(6), partition_by="k") if number % 2 else written(folder, "json", range(6))
        process = forked(dying, str(folder), number)
        process.join()
        assert ids_in(folder, "json") == up_to(6)
        if process.exitcode == 0:
            break
        died += 1
        sink.commit(6, [rows(6, FLAT)])  # a run that goes on
        assert ids_in(folder, "json") == up_to(7)
        again = opened(folder, "json", **({"partition_by": "k"} if number % 2 else {}))
        assert again.committed() == 6
        again.commit(7, [rows(7, FLAT)])
        merging.merge(folder, LARGE)
        assert ids_in(folder, "json") == up_to(8)
        assert len(visible(folder)) == (3 if number % 2 else 1)
        assert [path.name for path in above.iterdir()] == ["out"]
        assert not (folder / merging.MARK).exists()
    assert died > 20
