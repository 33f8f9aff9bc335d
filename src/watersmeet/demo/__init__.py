"""`watersmeet demo`: follow objects past three cameras, with a three-way join over pairwise windows.

Everything goes the ordinary way: Parquet files, a script of SQL, a sink. A slice of the answer is checked
against the reference, which tries every combination.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
from rich.console import Console

from watersmeet.demo.checking import check, sample, sliced
from watersmeet.demo.engines import DemoEngine, InProcess, OnSpark, Outcome, tell
from watersmeet.demo.traffic import CAMERAS, LATENESS, ROWS_PER_SECOND, is_late, sightings
from watersmeet.noticing import phase
from watersmeet.session import Session
from watersmeet.temporary_folders import temporary_folder

FILES = 10  # per camera; on Spark a micro-batch takes one of each
FAILED, INTERRUPTED = 1, 130
ENGINES: dict[str, type[InProcess] | type[OnSpark]] = {"local": InProcess, "spark": OnSpark}

QUESTION = """\
Which objects pass all three cameras, with at most 30 s between the first two
and 45 s between the last?"""
QUERY = """\
SELECT n.object,
       CASE WHEN n.ts < s.ts THEN 'south' ELSE 'north' END AS heading,
       n.ts AS north, c.ts AS centre, s.ts AS south,
       GREATEST(n.speed, c.speed, s.speed) AS top_speed
FROM camera_north n, camera_centre c, camera_south s
WHERE n.object = c.object AND c.object = s.object
WINDOW (n, c) = 30 SECONDS AND WINDOW (c, s) = 45 SECONDS"""


def script(folder: str) -> str:
    """The demo as a script; its files are in `folder`."""
    folder = folder.replace("'", "''")
    streams = "".join(
        f"CREATE STREAM {camera} (object BIGINT, speed DOUBLE, ts TIMESTAMP)\n"
        f"WITH (source='parquet', path='{folder}/{camera}', time='ts', lateness='{LATENESS}',\n"
        f"      read='arrival', maxFilesPerTrigger='1');\n\n"
        for camera in CAMERAS
    )
    return f"""{streams}CREATE SINK tracks WITH (sink='parquet', path='{folder}/tracks.parquet', mode='overwrite') AS
{QUERY};
"""


def run_demo(rows: int | None, seed: int, keep: Path | None = None, engine: str = "spark") -> int:
    """Run it and tell what happens. The exit code: 1 if the answer is not the reference's, 130 if interrupted."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(QUESTION)
    with _folder(keep) as folder, ENGINES[engine](console) as host:
        host.begin()
        _heading(console, "The streams")
        tables = _write(console, folder, rows or host.default_rows, seed)
        text = script(str(folder))
        (folder / "cameras.sql").write_text(text, encoding="utf-8")
        return _shown(console, host, folder, text, tables, keep)


def _shown(
    console: Console, host: DemoEngine, folder: Path, text: str, tables: dict[str, pa.Table], keep: Path | None
) -> int:
    _heading(console, "The query")
    console.print(QUERY)
    host.start()
    _heading(console, "How it runs")
    console.print(host.prepare(text), end="")
    _heading(console, "Running")
    chosen = sliced(tables)
    _warm_up(console, chosen)
    outcome = host.run()
    if outcome.interrupted:
        return INTERRUPTED
    if not _late_rows_are_right(console, outcome, tables):
        return FAILED
    tracks = pa_parquet.read_table(folder / "tracks.parquet")
    _heading(console, "Some of the objects")
    console.print(sample(tracks))
    _heading(console, "Is it right?")
    agreed = check(console, host.plan, chosen, tracks)
    if keep is not None:
        console.print(f"\nThe data, the script and the answer are in {folder}. Once more:")
        console.print(f"  watersmeet run {folder / 'cameras.sql'} {host.arguments}")
    return 0 if agreed else FAILED


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with temporary_folder("demo-") as made:
        yield made


def _heading(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="bold")


def _write(console: Console, folder: Path, rows: int, seed: int) -> dict[str, pa.Table]:
    started = time.perf_counter()
    with phase("making the streams"):
        tables = sightings(rows, seed)
        for camera, table in tables.items():
            _write_files(folder / camera, table)
    total = sum(table.num_rows for table in tables.values())
    minutes = total / ROWS_PER_SECOND / 60
    seconds = time.perf_counter() - started
    console.print(f"{total:,} sightings of {minutes:.1f} minutes, made in {seconds:.1f} s (seed {seed}).")
    console.print("Rows arrive up to 1.5 s out of order; a few come too late and are left out.")
    return tables


def _write_files(folder: Path, table: pa.Table) -> None:
    """The rows in files whose names and ages tell their order."""
    folder.mkdir(exist_ok=True)
    per_file = -(-table.num_rows // FILES)
    now = time.time()
    for number in range(FILES):
        path = folder / f"part-{number:02d}.parquet"
        pa_parquet.write_table(table.slice(number * per_file, per_file), path)
        os.utime(path, (now, now - FILES + number))


def _warm_up(console: Console, chosen: dict[str, pa.Table]) -> None:
    """Compile or load the kernels, which would otherwise count as time of the run."""
    started = time.perf_counter()
    # In this process also for Spark: compiled kernels are kept on disk, where its workers find them.
    session = Session()
    for camera, table in chosen.items():
        session.stream(camera, table, time="ts", lateness=LATENESS)
    with phase("loading kernels"):
        session.sql(QUERY).to_arrow()
    tell(console, "kernels ready", f"{time.perf_counter() - started:.1f} s (compiled the first time, then kept)")


def _late_rows_are_right(console: Console, outcome: Outcome, tables: dict[str, pa.Table]) -> bool:
    """Only a row behind its own stream can be late, and it is if all streams have come further than it."""
    most = sum(int(is_late(table).sum()) for table in tables.values())
    if outcome.late_rows <= most:
        return True
    console.print(f"WRONG: at most {most:,} rows arrive late", style="bold red")
    return False
