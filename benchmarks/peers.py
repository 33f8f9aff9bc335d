"""One input, one query, one table: ours beside what one would use instead.

    python -m benchmarks.peers [--rows 400000] [--runs 3] [--only 'in-process;DuckDB'] [--queries 'join 2;GROUP BY']
    python -m benchmarks.peers --quick

Streams have a row every two milliseconds and each row about one partner in every other stream. Joins are of rows with
equal keys that are all within ten seconds; `GROUP BY`, `DISTINCT` and the ten greatest are those of windows of ten
seconds that hop by one.

Every engine is a process of its own. "Cold" is from its start to the last row of its first answer, "warm" the median of
the runs that follow, from the text of the query to the last row. Rows and checksum of every answer must be DuckDB's
over all rows at once, or no time is told. Engines that take long are asked of fewer rows, and less often (`Pace`): the
number of rows is told beside their times. Engines from PyPI get environments of their own, those in Java are downloaded
by Maven; what cannot be had is left out in a sentence. What was measured is kept at once, for each engine and query:
with `--resume` only what is missing is run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from threading import Timer
from typing import Any

import duckdb
import numpy as np
import platformdirs
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import RESULTS, cpu_name, unwind
from benchmarks.rivals import dialects, jvm
from benchmarks.rivals.jvm import FailedError, MissingError
from benchmarks.rivals.peers.as_topics import as_topics
from benchmarks.rivals.peers.protocol import PRIME, WEIGHTS, Asked

HERE = Path(__file__).parent
RUNNERS = HERE / "rivals" / "peers"
QUERIES = {"join 2": "ab", "join 3": "abc", "join 4": "abcd", "GROUP BY": "a", "DISTINCT": "a", "top 10": "a"}
WINDOW_MS, SLIDE_MS, STEP_MS = 10_000, 1_000, 2
PIECES = 4  # files of a stream, where they come in batches
GROUP_KEYS = 200
WHY = ("cannot", "left_out", "wrong", "failed")  # there is no number


@dataclass(frozen=True)
class Pace:
    """Of how many rows an engine is asked at most, and how often once it is warm: so that the whole table takes some
    twenty minutes."""

    rows: int = 10**9
    runs: int = 1_000


@dataclass(frozen=True)
class Engine:
    """How one is started, what it cannot be asked, and how it was used."""

    name: str
    command: Callable[[Asked], list[str]]  # raises MissingError
    how: str
    cannot: dict[str, str]
    changes: bool = False  # it tells how the first ten change, instead of all ten again
    given: Callable[[Asked], AbstractContextManager[Asked]] = nullcontext  # what must be there while it runs
    paces: Mapping[str, Pace] = field(default_factory=dict)  # by query

    def pace(self, query: str) -> Pace:
        return self.paces.get(query, Pace())


# ---- the input, and the right answers --------------------------------------------------------------------------------


def write_streams(folder: Path, query: str, rows: int) -> None:
    """Whole and in pieces as Parquet, and all in one as numbers, in the order of time."""
    streams = QUERIES[query]
    each = rows // len(streams)
    keys = 2 * WINDOW_MS // STEP_MS if query.startswith("join") else GROUP_KEYS
    tables = {}
    for seed, name in enumerate(streams):
        rng = np.random.default_rng(seed)
        times = np.arange(each) * STEP_MS + 1  # never at a whole second, where engines differ
        columns = {"id": np.arange(each), "k": rng.integers(0, keys, each), "v": rng.permutation(each)}
        tables[name] = pa.table({**columns, "ts": pa.array(times * 1_000, pa.timestamp("us"))})
        pq.write_table(tables[name], folder / f"{name}.parquet", row_group_size=1 << 17)
        (folder / "pieces" / name).mkdir(parents=True)
        size = -(-each // PIECES)
        for number in range(PIECES):
            path = folder / "pieces" / name / f"{number}.parquet"
            pq.write_table(tables[name].slice(number * size, size), path)
            os.utime(path, (1e9 + number, 1e9 + number))
    numbered = [
        np.column_stack([np.full(each, number), *(table[one].to_numpy() for one in ("id", "k", "v")), times])
        for number, table in enumerate(tables.values())
    ]
    merged = np.concatenate(numbered).astype("<i8")
    merged[np.argsort(merged[:, 4], kind="stable")].tofile(folder / "rows")


def expected(asked: Asked, changes: bool) -> tuple[int, int]:
    """Rows and checksum by DuckDB, over all rows at once."""
    with duckdb.connect() as db:
        for name in asked.streams:
            db.execute(f"CREATE TABLE {name} AS SELECT id, k, v, epoch_us(ts) AS t FROM '{asked.file(name)}'")
        answer = right_answer(asked, changes)
        width = len(db.execute(f"DESCRIBE {answer}").fetchall())
        names = [f"c{number}" for number in range(width)]
        mixed = " + ".join(f"{name}::HUGEINT * {weight}" for name, weight in zip(names, WEIGHTS, strict=False))
        found = db.execute(
            f"SELECT count(*), sum(({mixed}) % {PRIME}) FROM ({answer}) r({', '.join(names)})"
        ).fetchone()
    assert found is not None
    return int(found[0]), int(found[1] or 0)


_known: dict[tuple[str, str, bool], tuple[int, int]] = {}  # by query and folder


def known_answer(asked: Asked, changes: bool) -> tuple[int, int]:
    """DuckDB is asked once for all engines that get the same rows."""
    same = (asked.query, asked.folder, changes)
    if same not in _known:
        _known[same] = expected(asked, changes)
    return _known[same]


def right_answer(asked: Asked, changes: bool) -> str:
    if asked.joins:
        streams, width = asked.streams, asked.window_ms * 1_000
        same = [f"a.k = {name}.k" for name in streams[1:]]
        near = [f"abs({x}.t - {y}.t) <= {width}" for i, x in enumerate(streams) for y in streams[i + 1 :]]
        ids = ", ".join(f"{name}.id" for name in streams)
        return f"SELECT {ids} FROM {', '.join(streams)} WHERE {' AND '.join(same + near)}"
    first = f"t // {asked.slide_ms * 1_000} + 1"
    ends = f"unnest(range({first}, {first} + {asked.window_ms // asked.slide_ms}))"
    rows = f"(SELECT id, k, v, {ends} AS e FROM a)"
    if asked.query == "GROUP BY":
        return f"SELECT e, k, count(*), sum(v) FROM {rows} WHERE e <= {asked.last_s} GROUP BY e, k"
    if asked.query == "DISTINCT":
        return f"SELECT DISTINCT e, k FROM {rows} WHERE e <= {asked.last_s}"
    ten = f"""SELECT e, id, v FROM {rows} WHERE e <= {asked.last_s}
              QUALIFY row_number() OVER (PARTITION BY e ORDER BY v DESC) <= 10"""
    if not changes:
        return ten
    come = "SELECT e, id, v, 1 FROM ten a ANTI JOIN ten b ON a.id = b.id AND a.e = b.e + 1"
    leave = (
        f"SELECT e + 1, id, v, 2 FROM ten a ANTI JOIN ten b ON a.id = b.id AND b.e = a.e + 1 WHERE e < {asked.last_s}"
    )
    return f"WITH ten AS ({ten}) {come} UNION ALL {leave}"


# ---- the engines -----------------------------------------------------------------------------------------------------


def here(script: str, asked: Asked) -> list[str]:
    return [sys.executable, str(RUNNERS / script), json.dumps(asdict(asked))]


@cache
def environment(*wanted: str) -> str:
    """The Python of an environment that has what is wanted and is made once, in the user's cache."""
    folder = platformdirs.user_cache_path("watersmeet") / "peers" / "-".join(wanted).replace("==", "-")
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        print(f"an environment with {', '.join(wanted)} is made in {folder}", flush=True)
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *wanted,
            "pyarrow",
            "numpy",
        ]
        for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], install):
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                raise MissingError(f"pip could not install it: {done.stderr.strip().splitlines()[-1]}")
        ready.touch()
    return str(python)


def elsewhere(script: str, wanted: str, asked: Asked) -> list[str]:
    return [environment(wanted), str(RUNNERS / script), json.dumps(asdict(asked))]


def ours(script: str, asked: Asked, **more: str) -> list[str]:
    sql = dialects.windows_of_ours(asked.query, asked.streams, asked.window_ms, asked.slide_ms)
    return here(script, replace(asked, more={"sql": sql, **more}))


def in_spark(whose: str, asked: Asked) -> list[str]:
    return ours("in_spark.py", asked, whose=whose)


def in_esper(asked: Asked) -> list[str]:
    jars = jvm.fetched("esper")
    classes = jvm.compiled("esper-whole", ["EsperWhole.java"], jars)
    sql = dialects.windows_of_esper(asked.query, asked.streams, asked.window_ms, asked.slide_ms)
    numbers = [str(one) for one in (asked.runs, asked.last_s, asked.slide_ms)]
    path = f"{classes}{os.pathsep}{jars}"
    return [*jvm.JAVA_COMMAND, "-cp", path, "EsperWhole", sql, f"{asked.folder}/rows", asked.query, *numbers]


def in_flink(asked: Asked) -> list[str]:
    folder = Path(asked.folder) / "flink"
    folder.mkdir(exist_ok=True)
    columns = "id BIGINT, k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    files = "'connector' = 'filesystem', 'format' = 'parquet', 'path' = "
    tables = [f"CREATE TABLE {name} ({columns}) WITH ({files}'{asked.file(name).as_uri()}');" for name in asked.streams]
    (folder / "setup.sql").write_text("\n".join(tables))
    (folder / "q.sql").write_text(
        dialects.windows_of_flink(asked.query, asked.streams, asked.window_ms, asked.slide_ms)
    )
    jars = os.pathsep.join([jvm.fetched("flink"), *jvm.hadoop()])
    classes = jvm.compiled("nexmark", [HERE / "flink" / "Nexmark.java"], jars)
    settings = ["pipeline.object-reuse=true", "table.local-time-zone=UTC"]
    command = [*jvm.JAVA_COMMAND, f"-Dlast={asked.last_s}", "-cp", f"{classes}{os.pathsep}{jars}", "Nexmark"]
    return [*command, str(folder), str(os.cpu_count()), str(asked.runs - 1), *settings]


NO_INTERVAL = "its joins are of rows in the same tumbling or sliding window; there is none of rows within a distance"
FEWER, FEW, ONCE = Pace(100_000, 1), Pace(20_000, 1), Pace(runs=1)
ENGINES = (
    Engine("in-process", partial(ours, "in_process.py"), "from Parquet files", {}, changes=True),
    Engine("DuckDB", partial(here, "in_duckdb.py"), "asked again at every slide, over a table in memory", {}),
    Engine("Polars", partial(here, "in_polars.py"), "asked again at every slide, over a frame in memory", {}),
    Engine("Esper", in_esper, "9.0, one row after the other, in the thread that sends them", {}),
    Engine(
        "Flink SQL",
        in_flink,
        "2.3, in one process, a task for each core, no checkpoints",
        {},
        paces={"top 10": FEWER},
    ),
    Engine(
        "Pathway",
        partial(elsewhere, "in_pathway.py", "pathway==0.33.0"),
        "tables that are there already",
        {},
        paces=dict.fromkeys(QUERIES, FEWER),
    ),
    Engine("LaminarDB", partial(elsewhere, "in_laminar.py", "laminardb==0.17.0"), "a thousand rows an insert", {}),
    Engine(
        "Bytewax",
        partial(elsewhere, "in_bytewax.py", "bytewax==0.21.1"),
        "its windows, folded by functions of Python",
        dict.fromkeys(("join 2", "join 3", "join 4"), NO_INTERVAL),
        paces=dict.fromkeys(("GROUP BY", "DISTINCT", "top 10"), FEWER),
    ),
    Engine(
        "Quix Streams",
        partial(elsewhere, "in_quix.py", "quixstreams==3.28.1"),
        "from topics of one partition, state in RocksDB, no changelogs",
        {},
        given=as_topics,
        paces=dict.fromkeys(QUERIES, FEW),
    ),
    Engine("on Spark", partial(in_spark, "ours"), "four batches, packed files", {}, changes=True),
    Engine(
        "Spark's own",
        partial(in_spark, "memory"),
        "four batches, its store in memory",
        {},
        paces={"top 10": FEWER},
    ),
    Engine(
        "Spark's own, RocksDB",
        partial(in_spark, "RocksDB"),
        "four batches, its store in RocksDB",
        {},
        paces={**dict.fromkeys(QUERIES, ONCE), "top 10": FEWER},
    ),
)


# ---- measuring -------------------------------------------------------------------------------------------------------


def lines_of(command: list[str], cwd: str, most_s: float) -> Iterator[tuple[float, dict[str, Any]]]:
    """What a process tells, and when, since its start."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent / "src"), str(HERE.parent)])}
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=cwd, env=env)
        assert process.stdout is not None
        alarm = Timer(most_s, process.kill)
        alarm.start()
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    yield time.perf_counter() - started, json.loads(line)
            if process.wait():
                if time.perf_counter() - started > most_s:
                    raise FailedError(f"it was not done after {most_s:.0f} s")
                errors.seek(0)
                raise FailedError(jvm.first_error(errors.read()))
        finally:
            alarm.cancel()
            process.kill()
            process.wait()


class WrongError(Exception):
    """What an answer has, and what it should have."""


def measured(engine: Engine, asked: Asked, most_s: float) -> dict[str, Any]:
    about = {"engine": engine.name, "query": asked.query, "load": round(os.getloadavg()[0], 1)}
    about |= {"rows": asked.rows_in_all, "runs": asked.runs - 1}
    if asked.query in engine.cannot:
        return about | {"cannot": engine.cannot[asked.query]}
    right = known_answer(asked, engine.changes and asked.query == "top 10")
    try:
        with engine.given(asked) as asked:
            return about | figures_of(lines_of(engine.command(asked), asked.folder, most_s), right)
    except MissingError as missing:
        return about | {"left_out": in_a_line(missing)}
    except WrongError as wrong:
        return about | {"wrong": in_a_line(wrong)}
    except FailedError as failed:
        return about | {"failed": in_a_line(failed)}


def in_a_line(error: Exception) -> str:
    """As a table of the page takes it."""
    return " ".join(str(error).split())


def figures_of(lines: Iterator[tuple[float, dict[str, Any]]], right: tuple[int, int]) -> dict[str, Any]:
    """Of the first run how long it took from the start of the process, of the others themselves."""
    cold, warm, topics = 0.0, [], {}
    for at, told in lines:
        if "cannot" in told:
            return {"cannot": told["cannot"]}
        if "error" in told:
            raise FailedError(told["error"])
        if "topics_s" in told:
            topics = told
            continue
        if "rows" in told and (told["rows"], told["checksum"]) != right:
            got = f"{told['rows']:,} rows with checksum {told['checksum']}"
            raise WrongError(f"{got} are not the {right[0]:,} with checksum {right[1]} that are right")
        if cold:
            warm.append(told)
        cold = cold or at - told.get("waited", 0.0)
    seconds = [one["seconds"] for one in warm]
    processor = statistics.median(one["processor"] for one in warm)
    spread = {"warm_s": statistics.median(seconds), "low_s": min(seconds), "high_s": max(seconds)}
    return {"cold_s": cold, **spread, "processor_s": processor, "answers": right[0], **topics}


def line(one: dict[str, Any]) -> str:
    told = f"{one['query']:9} {one['engine']:22} "
    if "cold_s" not in one:
        return told + next(f"{key.replace('_', ' ')}: {one[key]}" for key in WHY if key in one)
    return told + f"{one['answers']:9,} answers   cold {one['cold_s']:7.2f} s   warm {one['warm_s']:7.2f} s"


def asked_at(pace: Pace, query: str, folder: Path, rows: int, runs: int) -> Asked:
    """Of so many rows as the engine's pace allows; the same files for all engines that are asked of as many."""
    rows, streams = min(rows, pace.rows), QUERIES[query]
    own = folder / f"{rows}"
    if not own.exists():
        own.mkdir()
        write_streams(own, query, rows)
    last_s = (rows // len(streams) * STEP_MS) // 1_000 - 2
    return Asked(query, str(own), streams, WINDOW_MS, SLIDE_MS, last_s, min(runs, pace.runs) + 1, {}, rows)


def measured_before(path: Path, about: dict[str, Any]) -> list[dict[str, Any]]:
    """What was measured of the same input as often; anything else is no part of one table."""
    if not path.exists():
        return []
    before = json.loads(path.read_text())
    same = all(before[one] == about[one] for one in ("cpu", "rows", "runs"))
    return before["figures"] if same else []


def keep(path: Path, about: dict[str, Any], figures: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps({**about, "figures": figures}, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=400_000, help="of all streams of a query together")
    parser.add_argument("--runs", type=int, default=3, help="that are warm")
    parser.add_argument("--only", default=";".join(one.name for one in ENGINES), help="engines, parted by semicolons")
    parser.add_argument("--most", type=float, default=120.0, help="seconds for one engine and query, all runs")
    parser.add_argument("--queries", default=";".join(QUERIES), help="parted by semicolons")
    parser.add_argument("--quick", action="store_true", help="40,000 rows, one warm run")
    parser.add_argument("--resume", action="store_true", help="leave out what the JSON has already")
    parser.add_argument("--json", type=Path, default=RESULTS / "peers.json")
    given = parser.parse_args()
    rows, runs = (40_000, 1) if given.quick else (given.rows, given.runs)
    about = {
        "benchmark": "peers", "cpu": cpu_name(), "cores": os.cpu_count(), "rows": rows, "runs": runs,
        "how": {engine.name: engine.how for engine in ENGINES},
    }  # fmt: skip
    found = measured_before(given.json, about)
    engines = [one for one in ENGINES if one.name in given.only.split(";")]
    signal.signal(signal.SIGTERM, unwind)
    for query in given.queries.split(";"):
        with tempfile.TemporaryDirectory(prefix="peers-") as folder:
            for engine in engines:
                asked = asked_at(engine.pace(query), query, Path(folder), rows, runs)
                same = [one for one in found if (one["engine"], one["query"]) == (engine.name, query)]
                if given.resume and same:
                    continue
                one = measured(engine, asked, given.most)
                print(line(one), flush=True)
                found = [other for other in found if other not in same] + [one]
                keep(given.json, about, found)


if __name__ == "__main__":
    main()
