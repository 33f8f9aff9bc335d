"""Lives of a durable run, each in a process of its own that may be killed at a chosen moment.

The processes are forked from one that has imported all and started no thread, so that a life costs little.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.dataset import dataset, partitioning

from tests.one_life import lived_through

MINUTE_US = 60_000_000
# Where a life may end: a method, and whether before it, after it, or half way through what it writes.
POINTS = (
    "Journal.append before",
    "Journal.append torn",
    "Journal.append after",
    "Answering.answer after",
    "FilesSink.commit before",
    "FilesSink.commit after",
    "Snapshots.write before",
    "Snapshots.write after",
    "Snapshots.publish after",
    "Journal.forget after",
)
# Where a script that changed may be killed: as folders are made for queries that are new, or removed.
POINTS_OF_CHANGES = (
    "Journal.append before",
    "Journal.append torn",
    "Journal.append after",
    "Answering.answer after",
    "Place.write_whole before",
    "Place.write_whole after",
    "Place.remove before",
    "Place.remove after",
)
# The same where one query takes the place of another, around the write that decides.
POINTS_OF_SUCCESSIONS = (
    "Checkpoint.take_over before",
    "Checkpoint.take_over after",
    "DurableExecution.take_over before",
    "DurableExecution.take_over after",
    "DurableExecution.begin_to_answer before",
    "DurableExecution.begin_to_answer after",
    "Dropped.release before",
    "Dropped.release after",
)
# Where a commit of several files may be torn.
POINTS_OF_PARTITIONS = (
    "LocalFolder.publish before",
    "LocalFolder._finish before",
    "Path.replace after",
    "Path.replace before",
)


@dataclass(frozen=True)
class Case:
    """A query over streams that are read from folders or pushed, in a folder of its own."""

    sql: str
    folder: Path
    read: tuple[str, ...] = ()
    pushed: tuple[str, ...] = ()
    batch_rows: int = 64
    snapshot_s: float = 0.02
    commit_s: float = 0.01
    lateness: str = "1 second"
    partition_by: str | None = None


def rows_of(name: str, count: int, seed: int = 0) -> pa.Table:
    """Rows of a minute, a little out of order."""
    rng = np.random.default_rng([seed, *name.encode()])
    times = np.sort(rng.integers(0, MINUTE_US, count)) + rng.integers(0, 400_000, count)
    return pa.table(
        {
            "id": np.arange(count),
            "k": rng.integers(0, 20, count),
            "v": np.round(rng.random(count), 3),
            "s": pa.array([f"w{n}" for n in rng.integers(0, 5, count)]),
            "ts": pa.array(times, pa.timestamp("us")),
        }
    )


def write_files(case: Case, count: int, files: int = 4) -> None:
    for name in case.read:
        folder = case.folder / name
        folder.mkdir(parents=True)
        rows = rows_of(name, count)
        for number in range(files):
            path = folder / f"{number}.parquet"
            pq.write_table(rows.slice(number * count // files, count // files), path)
            os.utime(path, (number + 1, number + 1))


def made_run(case: Case) -> Any:
    import watersmeet as wm
    from watersmeet.hosts.local.durable.durable_execution import DurableExecution
    from watersmeet.hosts.local.durable.place import Place
    from watersmeet.io.connectors.numbered_sinks import numbered_sink
    from watersmeet.io.connectors.readers import reader_of
    from watersmeet.plan.walks import relations_below
    from watersmeet.runtime.run_settings import RunSettings

    session = wm.Session()
    for name in case.read:
        session.stream(name, str(case.folder / name), time="ts", lateness=case.lateness)
    for name in case.pushed:
        schema = {"id": "BIGINT", "k": "BIGINT", "v": "DOUBLE", "s": "VARCHAR", "ts": "TIMESTAMP"}
        session.stream(name, schema=schema, time="ts", lateness=case.lateness)
    plan = session.sql(case.sql).plan
    streams = {one.name: one for one in relations_below(plan.root)}
    sink = {"sink": "parquet", "path": str(case.folder / "out")}
    sink |= {} if case.partition_by is None else {"partition_by": case.partition_by}
    settings = RunSettings(
        batch_rows=case.batch_rows,
        save_every_s=case.snapshot_s,
        commit_every_s=case.commit_s,
        available_now=not case.pushed,
        sync=False,  # a process that dies loses nothing that the system has
    )
    return DurableExecution(
        plan,
        Place(case.folder / "checkpoint"),
        lambda checkpoint, start: numbered_sink("out", sink, plan.output_schema, checkpoint.run, start=start),
        {name: reader_of(streams[name]) for name in case.read},
        settings,
        tell=lambda what: None,
    )


def live(case: Case, count: int, ends_at: str | None, after: int) -> None:
    """One life: to the end of all rows, or until a point was passed so often."""
    if ends_at is not None:
        die_at(ends_at, after)
    run = made_run(case)
    run.start()
    if case.pushed:
        push_rest(case, run, count)
        run.stop()
    else:
        run.wait()


def push_rest(case: Case, run: Any, count: int) -> None:
    """Push what the run does not have yet, the streams in turn, and note what was acknowledged."""
    rows = {name: rows_of(name, count) for name in case.pushed}
    taken = {name: run.taken(name) for name in case.pushed}
    noted = case.folder / "acknowledged"
    for name, so_far in acknowledged(case).items():
        assert taken[name] >= so_far, f"{so_far} rows of {name} were acknowledged, and {taken[name]} are there"
    with noted.open("a") as file:  # a life may have died between writing rows down and saying so: now it is said
        file.writelines(f"{name} {at}\n" for name, at in taken.items() if at)
    while any(at < count for at in taken.values()):
        for name, at in taken.items():
            part = rows[name].slice(at, 7)
            if len(part):
                run.push(name, part)
                taken[name] = at + len(part)
                with noted.open("a") as file:
                    file.write(f"{name} {taken[name]}\n")


def acknowledged(case: Case) -> dict[str, int]:
    noted = case.folder / "acknowledged"
    lines = noted.read_text().splitlines() if noted.exists() else []
    return {name: int(at) for name, at in (line.split() for line in lines)}


def die_at(point: str, after: int) -> None:
    from watersmeet.hosts.local.durable.answering import Answering
    from watersmeet.hosts.local.durable.checkpoint import Checkpoint
    from watersmeet.hosts.local.durable.durable_execution import DurableExecution
    from watersmeet.hosts.local.durable.journal import Journal
    from watersmeet.hosts.local.durable.place import Place
    from watersmeet.hosts.local.durable.places import Dropped
    from watersmeet.hosts.local.durable.snapshots import Snapshots
    from watersmeet.io.connectors.files.local_folder import LocalFolder
    from watersmeet.io.connectors.files.sink import FilesSink

    where, when = point.split()
    owner, name = where.split(".")
    kinds = (Journal, Answering, Snapshots, FilesSink, LocalFolder, Path, Place, Checkpoint, DurableExecution, Dropped)
    kind: Any = {one.__name__: one for one in kinds}[owner]
    method: Callable[..., Any] = getattr(kind, name)
    left = [after]

    def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0 or when == "after":
            given = method(self, *arguments, **named)
            if left[0] >= 0:
                return given
        if when == "torn":
            number, parts = arguments
            data = b"".join(bytes(memoryview(part)) for part in parts)
            method(self, number, [data], soon=True)  # it never came to be acknowledged
            size = self._path.stat().st_size
            os.truncate(self._path, self._end - max(len(data) // 2, 1))
            os.truncate(self._path, size)  # zeros stand where nothing was written
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(kind, name, dying)


def lived(case: Case, count: int, ends_at: str | None = None, after: int = 0, timeout_s: float = 120) -> bool:
    """Whether a life in a process of its own came to its end; False if it was killed as asked."""
    return lived_through(live, case, count, ends_at, after, timeout_s=timeout_s)


def killed_again_and_again(case: Case, count: int, seed: int, kills: int) -> int:
    """Lives that end at random points, then one to the end; how many were killed."""
    rng = random.Random(seed)
    points = [("Journal.append after", 2), *((rng.choice(POINTS), rng.randrange(8)) for _ in range(kills - 1))]
    died = sum(not lived(case, count, point, after) for point, after in points)
    assert lived(case, count)
    return died


def answer(case: Case) -> pa.Table:
    found = dataset(case.folder / "out", format="parquet", partitioning=partitioning(flavor="hive")).to_table()
    if case.partition_by is not None:  # what stands in names of folders is a number of another size, and the last
        place = found.schema.get_field_index(case.partition_by)
        found = found.set_column(place, case.partition_by, found[case.partition_by].cast("int64"))
    names = sorted(found.schema.names)
    return found.select(names).sort_by([(name, "ascending") for name in names])
