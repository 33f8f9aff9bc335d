"""`watersmeet demo`: follow objects past three cameras, with a three-way join over pairwise windows.

Everything goes the ordinary way: Parquet files, a script of SQL, a sink. A slice of the answer is checked
against the reference, which tries every combination.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet
from rich.console import Console

from watersmeet.engine.interrupt import Interrupts
from watersmeet.engine.local import LocalRun
from watersmeet.engine.metrics import Metrics
from watersmeet.engine.progress import progress_on
from watersmeet.engine.run_job import run_job
from watersmeet.engine.script import Job, read_script
from watersmeet.model.time import UNITS_US
from watersmeet.reference.join import answer
from watersmeet.session import Query, Session

CAMERAS = ("camera_north", "camera_centre", "camera_south")
ROWS_PER_SECOND = 5_000  # of all cameras together
START_US = 1_767_258_000 * UNITS_US["second"]  # 2026-01-01 09:00
LATENESS = "2 seconds"
LATENESS_US = 2 * UNITS_US["second"]
KM_BETWEEN = (0.4, 0.6)
PASSING = 0.6  # the share of sightings that belong to an object on its way past all three cameras
LATE = 2e-4  # the share of sightings that arrive after their time is over
SLICE_ROWS = 200  # about so many rows of each camera are checked
SAMPLE_ROWS = 8
FAILED, INTERRUPTED = 1, 130

Numbers = npt.NDArray[np.int64]


def script(folder: str) -> str:
    """The demo as a script; its files are in `folder`."""
    folder = folder.replace("'", "''")
    streams = "".join(
        f"CREATE STREAM {camera} (object BIGINT, speed DOUBLE, ts TIMESTAMP)\n"
        f"WITH (source='parquet', path='{folder}/{camera}.parquet', time='ts', lateness='{LATENESS}');\n\n"
        for camera in CAMERAS
    )
    return f"""{streams}CREATE SINK tracks WITH (sink='parquet', path='{folder}/tracks.parquet', mode='overwrite') AS
{QUERY};
"""


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


# -- the traffic ----------------------------------------------------------------------------------------------


def sightings(rows: int, seed: int) -> dict[str, pa.Table]:
    """What the cameras see, each in the order in which its rows arrive: objects that pass all three cameras in
    either direction, and as noise objects that only one camera sees."""
    rng = np.random.default_rng(seed)
    per_camera = max(1, rows // len(CAMERAS))
    span_us = max(1, rows * UNITS_US["second"] // ROWS_PER_SECOND)
    passing = int(PASSING * per_camera)
    objects = 4 * passing + 1  # so that some pass more than once
    who = rng.integers(0, objects, passing)
    speed = rng.normal(90.0, 15.0, passing)
    times = [rng.integers(0, span_us, passing)]
    for km in KM_BETWEEN:
        times.append(times[-1] + _travel_us(rng, speed, km))
    southbound = rng.random(passing) < 0.5
    seen = [np.where(southbound, there, back) for there, back in zip(times, reversed(times), strict=True)]
    return {
        camera: _sighted(rng, who, speed, at, per_camera - passing, objects, span_us)
        for camera, at in zip(CAMERAS, seen, strict=True)
    }


def _travel_us(rng: np.random.Generator, speed_kmh: npt.NDArray[np.float64], km: float) -> Numbers:
    """The time from one camera to the next: at the object's own speed, with a stop now and then."""
    driving = km * 3600 / np.clip(speed_kmh, 20, None)
    stopping = rng.exponential(12.0, driving.size) * (rng.random(driving.size) < 0.6)
    return np.asarray((driving + stopping) * UNITS_US["second"], np.int64)


def _sighted(
    rng: np.random.Generator,
    who: Numbers,
    speed: npt.NDArray[np.float64],
    at_us: Numbers,
    noise: int,
    objects: int,
    span_us: int,
) -> pa.Table:
    """The rows of one camera. A row arrives up to 1.5 s after its time, and a few of them 5 s too late."""
    ids = np.concatenate([who, objects + rng.integers(0, 2**40, noise)])
    times = np.concatenate([at_us, rng.integers(0, span_us, noise)])
    speeds = np.concatenate([speed + rng.normal(0.0, 4.0, speed.size), rng.normal(90.0, 25.0, noise)])
    delay = rng.integers(0, 3 * LATENESS_US // 4, ids.size)
    delay += np.where(rng.random(ids.size) < LATE, LATENESS_US + 3 * UNITS_US["second"], 0)
    order = np.argsort(times + delay, kind="stable")
    return pa.table(
        {
            "object": ids[order],
            "speed": np.round(np.clip(speeds, 5.0, None), 1)[order],
            "ts": pa.array(START_US + times[order], pa.timestamp("us")),
        }
    )


def is_late(table: pa.Table) -> npt.NDArray[np.bool_]:
    """Which rows arrive more than the lateness behind the newest before them."""
    times = table["ts"].combine_chunks().view(pa.int64()).to_numpy()
    newest = np.maximum.accumulate(times)
    late = np.zeros(times.size, np.bool_)
    late[1:] = times[1:] < newest[:-1] - LATENESS_US
    return late


# -- the run --------------------------------------------------------------------------------------------------


@dataclass
class Watch:
    """What is shown while the join runs, and the largest its windows became."""

    peak_rows: int = 0
    peak_bytes: int = 0

    def update(self, metrics: Metrics) -> None:
        self.peak_rows = max(self.peak_rows, metrics.window_rows)
        self.peak_bytes = max(self.peak_bytes, metrics.state_bytes)


def run_demo(rows: int, seed: int, keep: Path | None = None) -> int:
    """Run it and tell what happens. The exit code: 1 if the answer is not the reference's, 130 if interrupted."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(QUESTION)
    with _folder(keep) as folder:
        _heading(console, "The streams")
        tables = _write(console, folder, rows, seed)
        text = script(str(folder))
        (folder / "cameras.sql").write_text(text, encoding="utf-8")
        (job,) = read_script(text)
        _heading(console, "The query")
        console.print(QUERY)
        _heading(console, "How it runs")
        console.print(Query(job.plan).explain(), end="")
        _heading(console, "Running")
        sliced = _sliced(tables)
        _warm_up(console, sliced)
        code = _run(console, job, tables)
        if code:
            return code
        tracks = pa_parquet.read_table(folder / "tracks.parquet")
        _heading(console, "Some of the objects")
        console.print(sample(tracks))
        _heading(console, "Is it right?")
        agreed = _check(console, job, sliced, tracks)
        if keep is not None:
            console.print(f"\nThe data, the script and the answer are in {folder}. Once more:")
            console.print(f"  watersmeet run {folder / 'cameras.sql'}")
        return 0 if agreed else FAILED


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with TemporaryDirectory(prefix="watersmeet-demo-") as made:
        yield Path(made)


def _heading(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="bold")


def _write(console: Console, folder: Path, rows: int, seed: int) -> dict[str, pa.Table]:
    started = time.perf_counter()
    tables = sightings(rows, seed)
    for camera, table in tables.items():
        pa_parquet.write_table(table, folder / f"{camera}.parquet")
    total = sum(table.num_rows for table in tables.values())
    minutes = total / ROWS_PER_SECOND / 60
    seconds = time.perf_counter() - started
    console.print(f"{total:,} sightings of {minutes:.1f} minutes, made in {seconds:.1f} s (seed {seed}).")
    console.print("Rows arrive up to 1.5 s out of order; a few come too late and are left out.")
    return tables


def _warm_up(console: Console, sliced: dict[str, pa.Table]) -> None:
    """Compile or load the kernels, which would otherwise count as time of the run."""
    started = time.perf_counter()
    session = Session()
    for camera, table in sliced.items():
        session.stream(camera, table, time="ts", lateness=LATENESS)
    session.sql(QUERY).to_arrow()
    _tell(console, "kernels ready", f"{time.perf_counter() - started:.1f} s (compiled the first time, then kept)")


def _tell(console: Console, label: str, value: str) -> None:
    console.print(f"{label:<22} {value}")


def _run(console: Console, job: Job, tables: dict[str, pa.Table]) -> int:
    watch, interrupts = Watch(), Interrupts(lambda text: print(text, file=sys.stderr))
    one = LocalRun(job.plan)
    started = time.perf_counter()
    with progress_on(sys.stderr, live=True) as progress:

        def show(metrics: Metrics) -> None:
            watch.update(metrics)
            progress.update(metrics)

        metrics = run_job(job, one, interrupts, show)
    seconds = time.perf_counter() - started
    _tell(console, "rows in", f"{metrics.rows_in:,}")
    _tell(console, "tracks found", f"{metrics.results:,}")
    _tell(console, "time", f"{seconds:.1f} s, of it {metrics.kernel_seconds:.1f} s in the join's kernels")
    _tell(console, "speed", f"{metrics.rows_in / seconds:,.0f} rows/s, from files to file")
    _tell(console, "late rows left out", f"{metrics.late_rows:,}")
    _tell(console, "windows at their peak", f"{watch.peak_rows:,} rows, {watch.peak_bytes / 2**20:.0f} MB")
    if interrupts.requested:
        return INTERRUPTED
    expected = sum(int(is_late(table).sum()) for table in tables.values())
    if metrics.late_rows != expected:
        console.print(f"WRONG: {expected:,} rows arrive late", style="bold red")
        return FAILED
    return 0


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


# -- the check ------------------------------------------------------------------------------------------------


def _sliced(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The rows in time of one object in so many. The join is on the object, so its answer over the slice is that
    slice of its answer."""
    one_in = max(1, max(table.num_rows for table in tables.values()) // SLICE_ROWS)
    return {camera: table.filter(pa.array(~is_late(table) & _one(table, one_in))) for camera, table in tables.items()}


def _one(table: pa.Table, one_in: int) -> npt.NDArray[np.bool_]:
    return np.asarray(table["object"].to_numpy() % one_in == 0)


def _check(console: Console, job: Job, sliced: dict[str, pa.Table], tracks: pa.Table) -> bool:
    chosen = pa.chunked_array(pc.unique(pa.concat_arrays([c for t in sliced.values() for c in t["object"].chunks])))
    found = tracks.filter(pc.is_in(tracks["object"], chosen))
    expected = answer(job.plan, sliced)
    given = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    rows = sum(table.num_rows for table in sliced.values())
    agreed = Counter(given) == Counter(expected) and len(expected) > 0
    verdict = "they agree." if agreed else "THEY DIFFER."
    console.print(f"The slow reference tries every combination of {rows} of the rows and finds {len(expected)}")
    console.print(f"tracks; of the same objects the join found {len(given)}: {verdict}")
    return agreed
