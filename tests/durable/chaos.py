"""Kills without end: scripts of several queries, over files and pushed rows, killed at random, and exact all the same.

    python -m tests.durable.chaos [--kills 100] [--seed 1]

Every round draws a script, its sinks and how rows come from its seed; runs it in lives that are killed, at a named
point of a batch or at any moment; lets one come to its end; and compares every sink with DuckDB, and with the log of a
run in one piece. In between the script changes, in most rounds: a query is added, one is dropped, and they stand in
another order; in some this happens while they run. What was added must say from the instant on from which it is whole
what it would say if it had always run; what was dropped has said nothing twice. A round that fails prints its seed:
`--seed N --rounds 1` repeats it.
run; what was dropped has said nothing twice. A round that fails prints its seed: `--seed N --rounds 1` repeats it.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from tests.durable.lives import POINTS, POINTS_OF_CHANGES, POINTS_OF_PARTITIONS, die_at, rows_of
from tests.forked import forked

COUNT = 160
COLUMNS = "(id BIGINT, k BIGINT, v DOUBLE, s VARCHAR, ts TIMESTAMP)"
ANY_MOMENT = "any moment"
QUERIES = {
    "pairs": "SELECT a.id AS x, b.id AS y, a.k, a.s FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS",
    "triples": (
        "SELECT a.id AS x, b.id AS y, c.id AS z, b.k FROM a, b, c WHERE a.k = b.k AND b.k = c.k "
        "WINDOW (a, b) = 4 SECONDS AND WINDOW (b, c) = 4 SECONDS"
    ),
    "alone": (
        "SELECT a.id AS x, b.id AS y, a.k FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + 1 SECONDS"
    ),
    "groups": "SELECT k, COUNT(*) AS n, MAX(v) AS most FROM a [RANGE 5 SECONDS] GROUP BY k",
    "kinds": "SELECT DISTINCT s, k FROM b [RANGE 3 SECONDS]",
    "joined": "SELECT a.k, COUNT(*) AS n FROM a [RANGE 4 SECONDS], c [RANGE 3 SECONDS] WHERE a.k = c.k GROUP BY a.k",
    "best": "SELECT id, k, v FROM c [RANGE 4 SECONDS] ORDER BY v DESC, id LIMIT 3",
    "steps": "SELECT k, window_end, SUM(id) AS total FROM TUMBLE(b, 5 SECONDS) GROUP BY k, window_start, window_end",
}

ADDED = {
    "near": "SELECT event_time() AS at, a.k, a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 1 SECONDS",
    "after": (
        "SELECT event_time() AS at, a.k, a.id AS x, c.id AS y FROM a, c WHERE a.k = c.k DWINDOW (a, c) = 3 SECONDS"
    ),
    "counts": "SELECT k, COUNT(*) AS n FROM a [RANGE 3 SECONDS] GROUP BY k",
    "rows_of_c": "SELECT ts AS at, k, id FROM c",
}


@dataclass(frozen=True)
class Round:
    """What one seed stands for."""

    seed: int
    folder: Path

    @property
    def drawn(self) -> dict[str, Any]:
        rng = random.Random(self.seed)
        names = rng.sample(sorted(QUERIES), rng.choice((1, 1, 2, 3)))
        added = rng.sample(sorted(ADDED), rng.choice((0, 1, 1, 2)))
        return {
            "added": added,
            "dropped": names[: rng.randrange(len(names))],
            "changes_at": rng.randint(1, 3),
            "while_they_run": rng.random() < 0.5,
            "queries": names,
            "sinks": {
                name: {
                    "sink": rng.choice(("parquet", "csv", "json")),
                    **({"partition_by": "k"} if rng.random() < 0.4 else {}),
                }
                for name in [*names, *added]
            },
            "pushed": [stream for stream in "abc" if rng.random() < 0.5],
            "batch_rows": rng.choice((1, 16, 64, 1024)),
            "gather_s": rng.choice((0.0, 0.002)),
            "snapshot_s": rng.choice((0.005, 0.02, 0.1)),
            "commit_s": rng.choice((0.0, 0.01, 0.05)),
            "lives": rng.randint(2, 6),
        }

    def queries(self, life: int) -> dict[str, str]:
        """Those of a life; the last ones are those of the script that changed."""
        drawn = self.drawn
        if life < drawn["changes_at"]:
            return {name: QUERIES[name] for name in drawn["queries"]}
        stay = {name: QUERIES[name] for name in drawn["queries"] if name not in drawn["dropped"]}
        return {name: ADDED[name] for name in drawn["added"]} | dict(reversed(stay.items()))

    def script(self, life: int) -> str:
        drawn, parts = self.drawn, []
        for name in "abc":
            source = "" if name in drawn["pushed"] else f"source = 'parquet', path = '{self.folder}/{name}', "
            parts.append(f"CREATE STREAM {name} {COLUMNS} WITH ({source}time = 'ts', lateness = '1 second');")
        for name, query in self.queries(life).items():
            words = {**drawn["sinks"][name], "path": f"{self.folder}/out_{name}"}
            said = ", ".join(f"{word} = '{value}'" for word, value in words.items())
            parts.append(f"CREATE SINK {name} WITH ({said}) AS {query};")
        return "\n".join(parts)

    def write_files(self) -> None:
        for name in "abc":
            if name not in self.drawn["pushed"]:
                (self.folder / name).mkdir(parents=True)
                for number in range(4):
                    part = rows_of(name, COUNT, self.seed).slice(number * COUNT // 4, COUNT // 4)
                    pq.write_table(part, self.folder / name / f"{number}.parquet")


def made(one: Round, life: int) -> Any:
    from watersmeet.hosts.local.durable.jobs import DurableJobs
    from watersmeet.runtime.run_settings import RunSettings

    drawn = one.drawn
    settings = RunSettings(
        batch_rows=drawn["batch_rows"],
        gather_s=drawn["gather_s"],
        save_every_s=drawn["snapshot_s"],
        commit_every_s=drawn["commit_s"],
        sync=False,  # a process that dies loses nothing that the system has
    )
    state = one.folder / "state"
    return DurableJobs(read(one, life), state, settings, tell=lambda what: None, pushed=True, queues={})


def read(one: Round, life: int) -> list[Any]:
    from watersmeet.runtime.declaring import open_to_go_on
    from watersmeet.runtime.script import read_script

    return read_script(one.script(life), opener=open_to_go_on, pushed=True)


def live(one: Round, life: int, ends_at: str | None, after: int) -> None:
    """One life, to the end of all rows unless it is killed."""
    if ends_at is not None:
        die_at(ends_at, after)
    changing = one.drawn["while_they_run"] and life == one.drawn["changes_at"]
    jobs = made(one, life - 1 if changing else life)
    jobs.start()
    if changing:
        change(one, jobs)
    for name in one.queries(life).keys() & ADDED.keys():
        note_whole(one, name, jobs.runs[name].execution.whole_us)
    (one.folder / "begun").touch()
    rng = random.Random(one.seed + after)
    for name, run in jobs.runs.items():
        push_rest(one, name, run, rng)
    for run in jobs.runs.values():
        while any(run.taken(stream) < COUNT for stream in run.execution.streams):
            if run.wait(0.005):
                raise AssertionError("a run ended by itself")
        run.flush()
    jobs.stop()


def change(one: Round, jobs: Any) -> None:
    """The script of later lives, while that of those before runs, in the midst of its rows."""
    for name, run in jobs.runs.items():
        push_rest(one, name, run, random.Random(one.seed), COUNT // 2)
    for job in read(one, one.drawn["changes_at"]):
        if job.name in one.drawn["added"]:
            jobs.make(job)
            jobs.begin(job.name)
    for name in one.drawn["dropped"]:
        jobs.drop(name)


def note_whole(one: Round, name: str, whole_us: int) -> None:
    """From when on it is whole is said once."""
    noted = one.folder / f"whole_{name}"
    if noted.exists():
        assert int(noted.read_text()) == whole_us, f"{name} was whole from {noted.read_text()}, and is from {whole_us}"
    else:
        (one.folder / "draft").write_text(str(whole_us))
        (one.folder / "draft").rename(noted)


def push_rest(one: Round, name: str, run: Any, rng: random.Random, until: int = COUNT) -> None:
    """Push what the run does not have yet, the streams in turn, and note what was acknowledged."""
    noted = one.folder / f"acknowledged_{name}"
    taken = {stream: run.taken(stream) for stream in one.drawn["pushed"] if stream in run.execution.streams}
    for line in noted.read_text().splitlines() if noted.exists() else []:
        stream, so_far = line.split()
        assert taken[stream] >= int(so_far), f"{so_far} rows of {stream} were acknowledged, {taken[stream]} are there"
    rows = {stream: rows_of(stream, COUNT, one.seed) for stream in taken}
    while any(at < until for at in taken.values()):
        for stream, at in taken.items():
            part = rows[stream].slice(at, rng.randint(1, 20))
            if len(part):
                run.push(stream, part)
                taken[stream] = at + len(part)
                with noted.open("a") as file:
                    file.write(f"{stream} {taken[stream]}\n")


def was_killed(one: Round, life: int, point: str | None, after: int, wait_s: float) -> bool:
    """Run a life in a process of its own. A life that is to be killed at any moment is, by a clock that begins when its
    runs do."""
    begun = one.folder / "begun"
    begun.unlink(missing_ok=True)
    process = forked(live, one, life, None if point == ANY_MOMENT else point, after)
    if point == ANY_MOMENT:
        until = time.monotonic() + 60
        while not begun.exists() and process.is_alive() and time.monotonic() < until:
            time.sleep(0.001)
        process.join(wait_s)
        process.kill()
    process.join(180)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("a life did not end within 180 s")
    assert process.exitcode in (0, -signal.SIGKILL), f"a life ended with {process.exitcode}"
    return process.exitcode != 0


def checked(one: Round) -> int:
    """Compare every sink with DuckDB, and with a run in one piece; how many rows that were."""
    import watersmeet as wm
    from watersmeet.checking import check

    session = wm.Session()
    for name in "abc":
        session.stream(name, rows_of(name, COUNT, one.seed), time="ts", lateness="1 second")
    total = 0
    drawn = one.drawn
    for name in [*drawn["queries"], *drawn["added"]]:
        query = session.sql({**QUERIES, **ADDED}[name])
        found = read_sink(one.folder / f"out_{name}", drawn["sinks"][name], query.schema)
        total += found.num_rows
        if name in drawn["added"]:
            check_added(name, found, query.to_arrow(), int((one.folder / f"whole_{name}").read_text()))
            continue
        if name in drawn["dropped"]:
            more = rows_in(found) - rows_in(query.to_arrow())
            assert not more, f"{name} was dropped, and has said too much: {list(more)[:3]}"
            continue
        report = check(query, run=lambda _, found=found: found)
        assert report.equal, f"{name} differs:\n{report}"
        check_equal(name, rows_in(found), rows_in(query.to_arrow()))
    return total


def rows_in(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def check_equal(name: str, given: Counter[str], once: Counter[str]) -> None:
    assert given == once, f"{name}: too many {list(given - once)[:3]}, missing {list(once - given)[:3]}"


def check_added(name: str, found: pa.Table, everything: pa.Table, whole_us: int) -> None:
    """From the instant on from which it is whole it says what it would if it had always run."""
    if "at" in found.schema.names:
        instants = everything["at"].cast(pa.int64()).to_numpy()
        check_equal(name, rows_in(found), rows_in(everything.filter(pa.array(instants >= whole_us))))
        return
    for until in sorted({*found["_ts"].cast(pa.int64()).to_pylist(), *everything["_ts"].cast(pa.int64()).to_pylist()}):
        if until >= whole_us:
            check_equal(f"{name} at {until}", sums(found, until), sums(everything, until))


def sums(log: pa.Table, until_us: int) -> Counter[str]:
    """What changes up to an instant add up to."""
    found = Counter[str]()
    for row in log.filter(pa.array(log["_ts"].cast(pa.int64()).to_numpy() <= until_us)).to_pylist():
        found[repr({word: value for word, value in row.items() if word[0] != "_"})] += 1 if row["_op"] == "+" else -1
    return +found


def read_sink(folder: Path, words: dict[str, str], schema: pa.Schema) -> pa.Table:
    tables = []
    for path in sorted(folder.rglob("part-*")):
        rows = _read(path, words["sink"], schema)
        for parent in reversed(path.relative_to(folder).parents[:-1]):
            column, _, value = parent.name.partition("=")
            given = None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
            rows = rows.append_column(
                column, pa.array([given] * len(rows), pa.string()).cast(schema.field(column).type)
            )
        tables.append(rows.select(schema.names).cast(schema))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _read(path: Path, kind: str, schema: pa.Schema) -> pa.Table:
    if kind == "parquet":
        return pq.ParquetFile(path).read()
    if kind == "csv":
        return pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(column_types=schema))
    return pa_json.read_json(path, parse_options=pa_json.ParseOptions(explicit_schema=schema)).select(
        [name for name in schema.names if f"{name}=" not in str(path.parent.name)]
    )


def points_of(one: Round, life: int) -> list[str]:
    """The named points that a life can come to, in an order by which consecutive seeds come to all of them."""
    if life == one.drawn["changes_at"]:
        start = one.seed * 3 % len(POINTS_OF_CHANGES)
        return [*POINTS_OF_CHANGES[start:], *POINTS_OF_CHANGES[:start]]
    partitioned = ["partition_by" in words for words in one.drawn["sinks"].values()]
    found = [*POINTS, *(POINTS_OF_PARTITIONS if any(partitioned) else ())]
    start = one.seed * 3 % len(found)
    return [*found[start:], *found[:start]]


def played(seed: int) -> tuple[int, Counter[str]]:
    """One round: rows compared, and where it was killed."""
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-chaos-"))
    one, rng, where = Round(seed, folder), random.Random(-seed), Counter[str]()
    one.write_files()
    for life in range(one.drawn["lives"]):
        changes = life == one.drawn["changes_at"]
        point = ANY_MOMENT if life % 2 and not changes else points_of(one, life)[life // 2]
        if was_killed(one, life, point, rng.randrange(12 if changes else 4), rng.expovariate(1 / 0.03)):
            where[f"{point}, as the script changes" if changes else point] += 1
    assert not was_killed(one, max(one.drawn["lives"], one.drawn["changes_at"]), None, 99, 0)
    rows = checked(one)
    shutil.rmtree(folder)
    return rows, where


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="how many lives are killed, at least")
    parser.add_argument("--seed", type=int, default=None, help="of the first round; by default drawn from the clock")
    parser.add_argument("--rounds", type=int, default=None, help="play so many instead")
    asked = parser.parse_args()
    seed = int(time.time()) % 1_000_000 if asked.seed is None else asked.seed
    kills, compared, rounds, where, began = 0, 0, 0, Counter[str](), time.monotonic()
    print(f"seed {seed}", flush=True)
    while rounds < asked.rounds if asked.rounds is not None else kills < asked.kills:
        try:
            rows, at = played(seed)
        except BaseException:
            print(f"failed with --seed {seed} --rounds 1, after {kills} kills", flush=True)
            raise
        kills, compared, rounds, where, seed = kills + at.total(), compared + rows, rounds + 1, where + at, seed + 1
        print(f"{kills} kills in {rounds} rounds, {compared:,} rows compared", flush=True)
    print(f"{kills} kills, all exact: {rounds} rounds, {compared:,} rows, {time.monotonic() - began:.0f} s")
    for point, times in sorted(where.items()):
        print(f"  {times:4}  {point}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
