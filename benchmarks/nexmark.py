"""The Nexmark queries, in-process, on Spark and in Flink SQL, over the same files.

    python -m benchmarks.nexmark [--rows 1000000] [--runs 3] [--queries q0,q5] [--hosts 'in-process;Flink;Spark']

Events are a millisecond apart, in one Parquet file a stream; a row in is an event of the streams that a query reads.
All answers are made and thrown away. Each query runs once to warm up, then `--runs` times: the median, the lowest and
the highest are kept, and rows a second of a processor, over all threads of the process. Before that the answer
in-process is compared with DuckDB's, row by row over the first events and by number over all; Flink's by number.

Flink runs in one Java process, warm as well; Maven fetches it once. What the same process takes to submit and end a job
over a thousand rows is taken off its times. Flink is measured with a parallelism of 1 and, if `--hosts` says so, of 2,
and with mini-batches, as its own Nexmark is: then not every change of an answer is given, but one for every mini-batch.

In-process a query has one thread, and two in a column of its own if its rows can be divided by key.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

import watersmeet as wm
from benchmarks.flink.queries import FLINK, setup
from benchmarks.harness import RESULTS, Figure, figure, report
from benchmarks.rivals import jvm
from tests.nexmark.running import (
    Rows,
    answer_by_duckdb,
    bag,
    count_by_duckdb,
    last_us,
    script_of,
    tables,
    used_by,
)
from watersmeet.runtime.final import final_answer

RATE = 1000.0
START = "q_start"
CHECKED = 100_000  # events, over which answers are compared row by row
PIECES = 4  # files of a stream, where they come in batches
HERE = Path(__file__).parent
PUBLISHED = [f"q{number}" for number in range(24)]
MINI_BATCHES = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
# Parallelism and settings.
FLINK_WAYS: dict[str, tuple[int, dict[str, str]]] = {
    "Flink": (1, {}),
    "Flink, mini-batches": (1, MINI_BATCHES),
    "Flink, 2": (2, {}),
}
TWO = "in-process, 2 threads"
HOSTS = ("in-process", TWO, *FLINK_WAYS, "Spark")
USUAL = ("in-process", TWO, "Flink", "Spark")


@dataclass(frozen=True)
class Ran:
    seconds: float
    processor: float


@dataclass(frozen=True)
class Streams:
    """Where the files are, and what is in them."""

    folder: Path
    made: dict[str, pa.Table]

    def rows_in(self, query: str) -> int:
        return sum(self.made[name].num_rows for name in used_by(query))

    def timed(self, work: Callable[[], Any]) -> Ran:
        with chdir(self.folder):
            started, processor = time.perf_counter(), time.process_time()
            work()
            return Ran(time.perf_counter() - started, time.process_time() - processor)


def write_streams(folder: Path, rows: int) -> Streams:
    made = tables(rows, RATE)
    (folder / "nexmark").mkdir()
    for name, table in made.items():
        pa_parquet.write_table(
            table, folder / "nexmark" / f"{name}.parquet", row_group_size=1 << 17, compression="zstd"
        )
        (folder / "pieces" / name).mkdir(parents=True)
        size = -(-table.num_rows // PIECES)
        for number in range(PIECES):
            path = folder / "pieces" / name / f"{number}.parquet"
            pa_parquet.write_table(table.slice(number * size, size), path, compression="zstd")
            os.utime(path, (1e9 + number, 1e9 + number))
    return Streams(folder, made)


# ---- in-process ------------------------------------------------------------------------------------------------------


def run_locally(query: str) -> int:
    """All of the answer is made; nobody keeps it."""
    if query == "q10":
        wm.Session().run(script_of(query))
        return 0
    return sum(batch.num_rows for batch in wm.Session().sql(script_of(query)).batches())


def in_two_threads(query: str) -> str | None:
    """The query for two threads; None if its rows cannot be divided by key."""
    if query == "q10":
        return None
    script = f"{script_of(query).rstrip().removesuffix(';')}\nOPTIONS (threads = 2);"
    return script if "in 2 threads" in str(wm.Session().sql(script).explain()) else None


def run_in_two_threads(script: str) -> int:
    return sum(batch.num_rows for batch in wm.Session().sql(script).batches())


def rows_in_two_threads(query: str, script: str, streams: Streams) -> int:
    """How many rows that gives; changes must be as many as in one thread."""
    with chdir(streams.folder):
        rows, alone = run_in_two_threads(script), run_locally(query)
    if rows != alone:
        raise SystemExit(f"{query}: {rows:,} rows in two threads are not the {alone:,} in one")
    return rows


def check(query: str, streams: Streams) -> None:
    """The answer, or what it is at the end, must be DuckDB's."""
    made = streams.made
    with chdir(streams.folder):
        if query == "q10":
            wm.Session().run(script_of(query))
            read = "read_csv('nexmark/log/**/*.csv', hive_partitioning=true, hive_types={'dt': VARCHAR, 'hm': VARCHAR})"
            written = duckdb.sql(f"SELECT auction, bidder, price, ts, extra, dt, hm FROM {read}")
            assert written is not None
            found = bag(written.to_arrow_table())
        else:
            session = wm.Session()
            asked = session.sql(script_of(query))
            answer = asked.to_arrow()
            if query == "q12":
                made = {**made, "bid": session.sql("SELECT * FROM bid").to_arrow()}
            if asked.plan.kind != "rows":
                answer = final_answer(answer, asked.plan, last_us(made, used_by(query)))
            found = bag(answer)
    expected: Rows = answer_by_duckdb(query, made)
    if found != expected:
        raise SystemExit(f"{query}: {found.total():,} rows are not the {expected.total():,} that DuckDB gives")


def count(query: str, streams: Streams) -> str:
    """How many rows the answer has, which changes at the end."""
    with chdir(streams.folder):
        if query == "q10":
            return f"{streams.rows_in(query):,}"
        asked = wm.Session().sql(script_of(query))
        rows = 0
        for batch in asked.batches():
            if asked.plan.kind == "rows":
                rows += batch.num_rows
            else:
                early = pc.less_equal(
                    batch["_ts"], pa.scalar(last_us(streams.made, used_by(query)), pa.timestamp("us"))
                )
                enters = pc.sum(pc.and_(early, pc.equal(batch["_op"], "+"))).as_py() or 0
                rows += 2 * enters - (pc.sum(early).as_py() or 0)
    if query != "q12":
        expected = count_by_duckdb(query, streams.made)
        if rows != expected:
            raise SystemExit(f"{query}: {rows:,} rows are not the {expected:,} that DuckDB gives")
    return f"{rows:,}"


# ---- on Spark --------------------------------------------------------------------------------------------------------


class OnSpark:
    """All queries in one Spark session, from files in batches, into a sink that takes rows and keeps none."""

    def __init__(self, scratch: Path) -> None:
        from watersmeet.hosts.spark.launching.launch import start_spark

        places = {"spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
        self.spark = start_spark(
            "local[2]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g", **places}
        )
        self.spark.sparkContext.setLogLevel("OFF")

    def run(self, query: str) -> None:
        script = script_of(query)
        for name in ("person", "auction", "bid"):
            script = script.replace(f"'nexmark/{name}.parquet', ", f"'pieces/{name}', maxFilesPerTrigger='1', ")
        if query != "q10":
            before, _, asked = script.rpartition("\n\nSELECT")
            script = f"{before}\n\nCREATE SINK answer WITH (sink='noop') AS\nSELECT{asked}"
        wm.Session(self.spark, buckets=2).run(script)


# ---- Flink -----------------------------------------------------------------------------------------------------------


def flink(streams: Streams, queries: Sequence[str], parallelism: int, runs: int, settings: dict[str, str]):
    """What a Java process with Flink in it tells, line by line."""
    jars = os.pathsep.join([jvm.fetched("flink"), *jvm.hadoop()])
    classes = jvm.compiled("nexmark", [HERE / "flink" / "Nexmark.java"], jars)
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given)
        (folder / "setup.sql").write_text(setup(streams.folder / "nexmark"))
        (folder / f"{START}.sql").write_text("SELECT key FROM side_input WHERE key < 1000")
        for query in queries:
            if query in FLINK:
                (folder / f"{query}.sql").write_text(FLINK[query])
        options = [f"{key}={value}" for key, value in {"pipeline.object-reuse": "true", **settings}.items()]
        command = [*jvm.JAVA_COMMAND, "-cp", f"{classes}{os.pathsep}{jars}", "Nexmark", given]
        told = subprocess.run(
            [*command, str(parallelism), str(runs), *options], check=True, capture_output=True, text=True, cwd=given
        )
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]


def flink_figures(name: str, streams: Streams, queries: Sequence[str], runs: int) -> Iterator[Figure]:
    parallelism, settings = FLINK_WAYS[name]
    lines = flink(streams, queries, parallelism, runs, settings)
    counted = {one["query"]: one for one in lines if "rows" in one}
    found: dict[str, list[Ran]] = {}
    for one in lines:
        if "error" in one:
            print(f"{one['query']}, {name}: {one['error']}", flush=True)
        elif "seconds" in one:
            found.setdefault(one["query"], []).append(Ran(one["seconds"], one["processor"]))
    # To submit and end a job over next to nothing.
    start = Ran(*(statistics.median(getattr(one, what) for one in found[START]) for what in ("seconds", "processor")))
    yield figure(f"start of a job, {name}", "s", [start.seconds], processor=f"{start.processor:.2f}")
    for query, ran in found.items():
        if query != START:
            told = counted[query]
            spent = [
                Ran(max(one.seconds - start.seconds, 0.01), max(one.processor - start.processor, 0.01)) for one in ran
            ]
            yield as_figure(query, name, spent, streams, answer=f"{told['rows']:,}", changes=f"{told['changes']:,}")


def as_figure(query: str, host: str, ran: Sequence[Ran], streams: Streams, **notes: object) -> Figure:
    rows = streams.rows_in(query)
    processor = statistics.median(one.processor for one in ran)
    if processor:
        notes = {**notes, "a_core": f"{rows / processor:.4g}"}
    return figure(f"{query}, {host}", "rows/s", [rows / one.seconds for one in ran], **notes)


def table(name: str) -> str:
    """What was measured, as a table of thousands of rows a second: the median, and in parentheses those of a core."""
    told = json.loads((RESULTS / f"{name}.json").read_text())
    cells: dict[str, dict[str, dict[str, Any]]] = {}
    for one in told["figures"]:
        query, _, host = one["name"].partition(", ")
        if one["unit"] == "rows/s":
            cells.setdefault(query, {})[host] = one
    hosts = [one for one in HOSTS if any(one in found for found in cells.values())]
    lines = [f"| | {' | '.join(hosts)} | a core: in-process to Flink |", f"|{'---|' * (len(hosts) + 2)}"]
    for query in sorted(cells, key=lambda one: int(one[1:])):
        found = cells[query]
        row = [_thousands(found[host]) if host in found else "" for host in hosts]
        cores = [float(found[host]["notes"]["a_core"]) for host in ("in-process", "Flink") if host in found]
        times = f"{cores[0] / cores[1]:.1f}" if len(cores) == 2 else ""
        lines.append(f"| {query} | {' | '.join(row)} | {times} |")
    return "\n".join(lines)


def _thousands(one: dict[str, Any]) -> str:
    a_core = f" ({float(one['notes']['a_core']) / 1000:,.0f})" if "a_core" in one["notes"] else ""
    return f"{one['median'] / 1000:,.0f}{a_core}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--queries", default=",".join(PUBLISHED))
    parser.add_argument("--hosts", default=";".join(USUAL), help=f"of {'; '.join(HOSTS)}; parted by semicolons")
    parser.add_argument("--into", default="nexmark", help="the name of the results")
    parser.add_argument("--table", action="store_true", help="print what was measured before, and measure nothing")
    asked = parser.parse_args()
    if asked.table:
        print(table(asked.into))
        return
    queries, hosts = asked.queries.split(","), asked.hosts.split(";")
    unknown = [one for one in hosts if one not in HOSTS]
    if unknown:
        raise SystemExit(f"there is no host {unknown[0]!r}; there are {'; '.join(HOSTS)}")
    scratch = Path(tempfile.mkdtemp(prefix="nexmark-"))
    try:
        (scratch / "few").mkdir()
        few = write_streams(scratch / "few", min(CHECKED, asked.rows))
        streams = write_streams(scratch, asked.rows)
        for host in hosts:
            try:
                report(asked.into, measured(host, asked, queries, streams, few), beside=True)
            except jvm.MissingError as missing:
                print(f"{host} is left out: {missing}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def measured(
    host: str, asked: argparse.Namespace, queries: Sequence[str], streams: Streams, few: Streams
) -> Iterator[Figure]:
    load = Path("/proc/loadavg").read_text().split()[0] if Path("/proc/loadavg").exists() else "nan"
    yield figure(f"load of the machine, {host}", "", [float(load)], events=f"{asked.rows:,}")
    if host in FLINK_WAYS:
        yield from flink_figures(host, streams, queries, asked.runs)
    elif host == "Spark":
        on_spark = OnSpark(streams.folder / "spark")
        for query in queries:
            ran = [streams.timed(partial(on_spark.run, query)) for _ in range(asked.runs + 1)][1:]
            # What the driver's Python needs of a processor says nothing of what Java and the workers need.
            yield as_figure(query, host, [Ran(one.seconds, 0.0) for one in ran], streams)
        on_spark.spark.stop()
    elif host == TWO:
        for query in queries:
            with chdir(streams.folder):
                script = in_two_threads(query)
            if script is not None:
                given = rows_in_two_threads(query, script, streams)
                ran = [streams.timed(partial(run_in_two_threads, script)) for _ in range(asked.runs)]
                yield as_figure(query, host, ran, streams, answer=f"{given:,}")
    else:
        for query in queries:
            check(query, few)
            rows = count(query, streams)
            ran = [streams.timed(partial(run_locally, query)) for _ in range(asked.runs)]
            yield as_figure(query, host, ran, streams, answer=rows)


if __name__ == "__main__":
    main()
