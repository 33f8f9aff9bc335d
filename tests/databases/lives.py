"""Lives of a run whose answers go into a database, each in its own process, which may be killed between two steps."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.databases.places import Place
from tests.durable.lives import Case, write_files
from tests.one_life import lived_through

OF_KIND = {
    "sqlite": ("sqlite", "SqliteFile", "SqliteWork"),
    "duckdb": ("duckdb_files", "DuckdbFile", "DuckdbWork"),
    "postgres": ("postgres", "PostgresServer", "PostgresWork"),
}
STEPS = ("run", "first", "append", "stage", "columns_of")


@dataclass(frozen=True)
class Kept:
    """A query and the database that its answer is kept in."""

    case: Case
    place: Place
    keys: tuple[str, ...] = ()
    changes: str | None = None


def kept_in(place: Place, folder: Path, sql: str, read: tuple[str, ...], count: int, **more: Any) -> Kept:
    folder.mkdir(parents=True)
    case = Case(sql, folder, read)
    write_files(case, count)
    return Kept(case, place, **more)


def live(kept: Kept, dies_at: int | None) -> None:
    """One life, to the end of all rows or of so many steps of the database."""
    import watersmeet as wm
    from watersmeet.hosts.local.durable.durable_execution import DurableExecution
    from watersmeet.hosts.local.durable.place import Place
    from watersmeet.io.connectors.readers import reader_of
    from watersmeet.model.catalog import Stream
    from watersmeet.plan.walks import relations_below
    from watersmeet.runtime.run_settings import RunSettings

    if dies_at is not None:
        die_after(kept.place.kind, dies_at)
    case = kept.case
    session = wm.Session()
    for name in case.read:
        session.stream(name, str(case.folder / name), time="ts", lateness=case.lateness)
    plan = session.sql(case.sql).plan
    streams = {one.name: one for one in relations_below(plan.root) if isinstance(one, Stream)}
    run = DurableExecution(
        plan,
        Place(case.folder / "checkpoint"),
        lambda checkpoint, start: kept.place.sink(
            plan.output_schema, run=checkpoint.run, keys=kept.keys, changes=kept.changes, start=start
        ),
        {name: reader_of(streams[name]) for name in case.read},
        RunSettings(
            batch_rows=case.batch_rows,
            save_every_s=case.snapshot_s,
            commit_every_s=0.0,
            commit_rows=1,
            most_uncommitted=1,
            available_now=True,
            sync=False,
        ),
        tell=lambda what: None,
    )
    run.start()
    run.wait()


def die_after(kind: str, steps: int) -> None:
    """Before and after each statement, and before and after the end of each transaction, a step ends."""
    from watersmeet.io.connectors.databases.table_sink import TableSink

    where, database_name, work_name = OF_KIND[kind]
    module = import_module(f"watersmeet.io.connectors.databases.{where}")
    database: Any = getattr(module, database_name)
    work: Any = getattr(module, work_name)
    left = [steps]

    def step() -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def stepping(method: Any) -> Any:
        def called(self: Any, *arguments: Any) -> Any:
            given = method(self, *arguments)
            step()
            return given

        return called

    begin = database.begin

    @contextmanager
    def begun(self: Any) -> Iterator[Any]:
        with begin(self) as inside:
            step()
            yield inside
            step()
        step()  # it is there, and nobody has been told

    for name in STEPS:
        setattr(work, name, stepping(getattr(work, name)))
    database.begin = begun
    TableSink.commit = stepping(TableSink.commit)  # type: ignore[method-assign]


def lived(kept: Kept, dies_at: int | None = None, timeout_s: float = 120) -> bool:
    return lived_through(live, kept, dies_at, timeout_s=timeout_s)


def killed_again_and_again(kept: Kept, kills: int, seed: int, most_steps: int = 24) -> int:
    """Lives that end after any number of steps, then one to the end; how many were killed."""
    at = random.Random(seed)
    died = sum(not lived(kept, at.randrange(most_steps)) for _ in range(kills))
    assert lived(kept)
    return died
