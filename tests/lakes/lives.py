"""Lives of a run from a table of a lake into another, each in a process of its own that is killed at some moment."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Thread
from time import sleep
from typing import Any

import duckdb
import pyarrow as pa

from tests.durable.lives import rows_of
from tests.one_life import lived_through

STEP_ROWS = 60
SQL = "SELECT a.id AS x, b.id AS y, a.s FROM a, b WHERE a.k = b.k WINDOW = 2 SECONDS"
# A method of the sink or of the run, and whether before it, after it, or so many milliseconds after it began.
POINTS = (
    "Journal.append before", "Journal.append after", "Answering.answer after", "Sink.commit before",
    "Sink.commit after", "Sink.commit amid", "Snapshots.write after", "Snapshots.publish after", "Journal.forget after",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Streams as they are created, and a sink as its options."""

    streams: str
    sink: Mapping[str, str]
    sink_class: str  # 'module:Class'
    checkpoint: str
    environment: Mapping[str, str] = field(default_factory=dict)


def fed(name: str, steps: int) -> list[pa.Table]:
    """The rows of a stream, in the steps in which they come."""
    rows = rows_of(name, steps * STEP_ROWS)
    return [rows.slice(step * STEP_ROWS, STEP_ROWS) for step in range(steps)]


def expected(steps: int) -> list[tuple[Any, ...]]:
    a, b = (rows_of(name, steps * STEP_ROWS) for name in ("a", "b"))  # DuckDB finds them by these names
    assert a.num_rows == b.num_rows
    return duckdb.sql(
        "SELECT a.id AS x, b.id AS y, a.s FROM a, b "
        "WHERE a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL 2 SECONDS AND b.ts + INTERVAL 2 SECONDS ORDER BY ALL"
    ).fetchall()


def killed_again_and_again(case: Case, seed: int, kills: int, grow: Callable[[str, int, pa.Table], None]) -> int:
    """Lives that end at random points, each with rows that came since, then one to the end; how many were killed. grow:
    adds rows to a stream, in so many steps."""
    rng = random.Random(seed)
    feeds = {name: fed(name, kills + 1) for name in ("a", "b")}
    died = 0
    for step in range(kills + 1):
        for name, steps in feeds.items():
            grow(name, step, steps[step])
        if step < kills:
            point = "Sink.commit after" if step == 0 else rng.choice(POINTS)
            died += not _lived(case, point, rng.randrange(2) if "Journal.append" in point else 0, rng.randrange(40))
    assert _lived(case, None, 0, 0)
    return died


def _lived(case: Case, point: str | None, after: int, amid_ms: int, timeout_s: float = 200) -> bool:
    return lived_through(live, case, point, after, amid_ms, timeout_s=timeout_s)


def live(case: Case, point: str | None, after: int, amid_ms: int) -> None:
    """One life: to the end of all rows, or until a point was passed so often."""
    os.environ.update(case.environment)
    import watersmeet as wm
    from watersmeet.hosts.local.durable.checkpoint_in_store import place_of
    from watersmeet.hosts.local.durable.durable_execution import DurableExecution
    from watersmeet.io.connectors.numbered_sinks import numbered_sink
    from watersmeet.io.connectors.readers import reader_of
    from watersmeet.plan.walks import relations_below
    from watersmeet.runtime.run_settings import RunSettings

    if point is not None:
        _die_at(case, point, after, amid_ms)
    session = wm.Session()
    session.sql(case.streams)
    plan = session.sql(SQL).plan
    streams: dict[str, Any] = {one.name: one for one in relations_below(plan.root)}
    settings = RunSettings(batch_rows=64, save_every_s=0.05, commit_every_s=0.02, available_now=True, sync=False)
    with place_of(case.checkpoint) as place:
        run = DurableExecution(
            plan,
            place,
            lambda kept, start: numbered_sink("out", case.sink, plan.output_schema, kept.run, start=start),
            {name: reader_of(stream) for name, stream in streams.items()},
            settings,
            tell=lambda what: None,
        )
    run.start()
    run.wait()


def _die_at(case: Case, point: str, after: int, amid_ms: int) -> None:
    from importlib import import_module

    from watersmeet.hosts.local.durable.answering import Answering
    from watersmeet.hosts.local.durable.journal import Journal
    from watersmeet.hosts.local.durable.snapshots import Snapshots

    module, _, name = case.sink_class.partition(":")
    kinds: dict[str, Any] = {"Journal": Journal, "Answering": Answering, "Snapshots": Snapshots}
    kinds["Sink"] = getattr(import_module(module), name)
    where, when = point.split()
    kind, method_name = kinds[where.split(".")[0]], where.split(".")[1]
    method = getattr(kind, method_name)
    left = [after]

    def dying(self: Any, *arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            return method(self, *arguments, **named)
        if when == "amid":
            Thread(target=_die_in, args=(amid_ms,), daemon=True).start()
        if when != "before":
            given = method(self, *arguments, **named)
            if when == "amid":
                return given
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(kind, method_name, dying)


def _die_in(ms: int) -> None:
    sleep(ms / 1000)
    os.kill(os.getpid(), signal.SIGKILL)
