"""How fast a backlog of files is answered with a checkpoint and without one, in one process; the answers must be equal.

With a checkpoint every batch is on the disk before it is answered, the state is saved twice a second (twenty times
as often as by default), and answers are committed as files; without, the same script runs from its files into its file.

    python -m benchmarks.durable_throughput [--rows 2000000] [--runs 5]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.harness import Figure, alternate, checksum, figure, report, seconds
from watersmeet.hosts.local.durable.jobs import DurableJobs
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.hosts.local.run_job import run_job
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.interrupt import Interrupts
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script

FILES = 20  # of each stream
KEYS = 100_000
STEP_US = 1_000  # from row to row of all streams: 1,000 rows a second
QUERIES = {
    "join of two": ("ab", "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 100 SECONDS"),
    "join of three": (
        "abc",
        "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 200 SECONDS",
    ),
    "GROUP BY": ("a", "SELECT g, COUNT(*) AS n, SUM(id) AS total FROM a [RANGE 100 SECONDS SLIDE 1 SECOND] GROUP BY g"),
}


def write_streams(folder: Path, streams: str, rows: int) -> None:
    """Rows of some streams in turn, in time order, as files that are read one after the other."""
    rng = np.random.default_rng(1)
    for number, name in enumerate(streams):
        (folder / name).mkdir()
        mine = np.arange(number, rows, len(streams))
        for part, ids in enumerate(np.array_split(mine, FILES)):
            columns = {
                "id": ids,
                "k": rng.integers(0, KEYS, ids.size),
                "g": rng.integers(0, 1_000, ids.size),
                "ts": pa.array(ids * STEP_US, pa.timestamp("us")),
            }
            pq.write_table(pa.table(columns), folder / name / f"part-{part:03d}.parquet")


def script(folder: Path, streams: str, query: str, out: Path) -> str:
    declared = [f"CREATE STREAM {one} WITH (path = '{folder / one}/*.parquet', time = 'ts');" for one in streams]
    return "\n".join([*declared, f"CREATE SINK out WITH (sink = 'parquet', path = '{out}') AS {query};"])


def without(text: str) -> None:
    (job,) = read_script(text)
    run_job(job, PulledExecution(job.plan), Interrupts(lambda _: None))


def with_checkpoint(text: str, checkpoint: Path) -> None:
    jobs = read_script(text, opener=open_to_go_on)
    settings = RunSettings(save_every_s=0.5, available_now=True, flush=True)
    durable = DurableJobs(jobs, checkpoint, settings)
    durable.start()
    durable.wait()


def compared(name: str, rows: int, runs: int) -> list[Figure]:
    streams, query = QUERIES[name]
    found: dict[str, tuple[int, int]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder, turn = Path(place), count()
        write_streams(folder, streams, rows)

        def timed(how: str) -> Callable[[], float]:
            def once() -> float:
                number = next(turn)
                out = folder / (f"out-{number}" if how == "with" else f"out-{number}.parquet")
                text = script(folder, streams, query, out)
                if how == "with":
                    took = seconds(lambda: with_checkpoint(text, folder / f"checkpoint-{number}"))
                else:
                    took = seconds(lambda: without(text))
                answer = ds.dataset(out).to_table()
                numbers = answer.select([one for one in answer.column_names if not one.startswith("_")])
                found[how] = checksum(numbers)
                return took

            return once

        samples = alternate({"without": timed("without"), "with": timed("with")}, runs)
    assert found["with"] == found["without"], found
    ratios = [a / b for a, b in zip(samples["without"], samples["with"], strict=True)]
    speeds = {how: [rows / one / 1e6 for one in took] for how, took in samples.items()}
    return [
        figure(f"{name}, without", "M rows/s", speeds["without"]),
        figure(f"{name}, with a checkpoint", "M rows/s", speeds["with"]),
        figure(f"{name}, with to without", "times", ratios, ">= 0.9", answers=found["with"][0]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--query", choices=list(QUERIES))
    asked = parser.parse_args()
    names = [name for name in QUERIES if asked.query in (None, name)]
    found = (one for name in names for one in compared(name, asked.rows, asked.runs))
    report("durable_throughput", found, beside=len(names) < len(QUERIES))


if __name__ == "__main__":
    main()
