"""In-process: consumed and decoded alone, and joined, and written."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from benchmarks.harness import Figure, alternate, figure
from benchmarks.topics.cluster import all_values, new_topic
from benchmarks.topics.rows import Query, Told, script, told_by
from watersmeet.hosts.local.durable.jobs import DurableJobs, streams_of
from watersmeet.io.connectors.readers import reader_of
from watersmeet.model.catalog import Stream
from watersmeet.runtime.declaring import open_to_go_on
from watersmeet.runtime.run_settings import RunSettings
from watersmeet.runtime.script import read_script

ALONE = "consumed and decoded alone"
PIECE_ROWS = 1 << 16


def consumed_alone(text: str) -> float:
    """All rows, decoded, by a thread for every stream, as a run has them; the seconds."""
    job = read_script(text, opener=open_to_go_on)[0]
    threads = [Thread(target=_read_all, args=(stream,)) for stream in streams_of(job.plan).values()]
    started = time.perf_counter()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return time.perf_counter() - started


def _read_all(stream: Stream) -> None:
    reader = reader_of(stream)
    while reader.has_more(reader.poll(PIECE_ROWS)):
        pass
    reader.close()


def joined(text: str, folder: Path, expected: Told, *, listens: bool) -> float:
    """With a checkpoint, to the end of what is there; the seconds. listens: answers go nowhere."""
    jobs = DurableJobs(
        read_script(text, opener=open_to_go_on),
        folder,
        RunSettings(available_now=True),
        tell=lambda what: None,
        pushed=listens,
    )
    started = time.perf_counter()
    jobs.start()
    jobs.wait()
    seconds = time.perf_counter() - started
    found = sum(run.latest().results for run in jobs.runs.values())
    if found != expected.answers:
        raise SystemExit(f"in-process gave {found:,} answers, not {expected.answers:,}")
    return seconds


def steps(
    brokers: str, topics: dict[str, str], query: Query, form: str, rows: int, runs: int, folder: Path, expected: Told
) -> Iterator[Figure]:
    bare = script(brokers, topics, query.text, form, None)

    def with_sink() -> float:
        out = new_topic(brokers, "bench-out")
        seconds = joined(script(brokers, topics, query.text, form, out), folder / out, expected, listens=False)
        check(brokers, out, query, expected, "in-process")
        return seconds

    samples = alternate(
        {
            ALONE: lambda: consumed_alone(bare),
            "and joined": lambda: joined(bare, folder / f"run-{time.time_ns()}", expected, listens=True),
            "and written": with_sink,
        },
        runs,
    )
    middles = {name: sorted(seconds)[runs // 2] for name, seconds in samples.items()}
    before_s = 0.0
    for name, seconds in samples.items():
        yield figure(
            f"{form}, {query.name}, in-process: {name}",
            "rows/s",
            [rows / one for one in seconds],
            "within 1.3 times of alone" if name == "and joined" else "",
            times_alone=round(middles[name] / middles[ALONE], 2),
            share=round(max(middles[name] - before_s, 0.0) / middles["and written"], 2),
        )
        before_s = middles[name]


def check(brokers: str, topic: str, query: Query, expected: Told, who: str) -> None:
    got = told_by(all_values(brokers, topic), query.columns)
    if got != expected:
        raise SystemExit(f"{who}, {query.name}: {got} is not {expected}, which DuckDB says")
