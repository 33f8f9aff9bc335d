"""A run in this process that writes down what it lets go of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from watersmeet.model.catalog import Table
from watersmeet.operators.contract import Operator
from watersmeet.operators.memory_bound import Records
from watersmeet.plan.query import Plan
from watersmeet.runtime.metrics import Metrics

if TYPE_CHECKING:
    from watersmeet.archive.folder import OpenRun

WAITING_BYTES = 8 << 20


class Recorded(Protocol):
    """What is asked of a run that may archive."""

    plan: Plan
    operator: Operator
    metrics: Metrics
    on_step: Callable[[], None] | None
    on_table: Callable[[Table, pa.RecordBatch], None] | None


@contextmanager
def archiving(run: Recorded) -> Iterator[None]:
    """Inside the block the run may be run; what it archives counts if the block ends well, and is gone if not."""
    shedding = run.plan.shedding
    if shedding is None or shedding.archive is None:
        yield
        return
    # Few runs have an archive.
    from watersmeet.archive.folder import Archive

    assert run.operator.bounded is not None
    run.operator.bounded.start_recording()
    folder = Archive.for_writing(shedding.archive, run.plan).begin()
    try:
        writing = _Writing(run, folder)
        yield
        writing.finish()
    except BaseException:
        folder.abort()
        raise
    folder.commit()


class _Writing:
    """Takes records from the join before they need much memory."""

    def __init__(self, run: Recorded, folder: OpenRun) -> None:
        self.metrics, self.folder = run.metrics, folder
        self.operator: Operator = run.operator
        self.schemas = {one.name: one.schema for one in run.plan.relations if isinstance(one, Table)}
        self.tables: dict[str, list[pa.RecordBatch]] = {name: [] for name in self.schemas}
        run.on_table, run.on_step = self.keep_table, self.step

    def keep_table(self, table: Table, data: pa.RecordBatch) -> None:
        self.tables[table.name].append(data)

    def step(self) -> None:
        # Static tables are read before the first step, so they are whole now.
        self._write_tables()
        if self._recorder.waiting_bytes > WAITING_BYTES:
            self._write()

    @property
    def _recorder(self) -> Records:
        bounded = self.operator.bounded
        assert bounded is not None
        assert bounded.recorder is not None
        return bounded.recorder

    def finish(self) -> None:
        self._write_tables()
        self._write()

    def _write_tables(self) -> None:
        for name, batches in self.tables.items():
            self.folder.write_table(name, pa.Table.from_batches(batches, self.schemas[name]))
        self.tables = {}

    def _write(self) -> None:
        recorder, counters = self._recorder, self.operator.counters
        self.metrics.archived_bytes += self.folder.add(recorder.take(counters.results, counters.lost_results))
        self.metrics.archived_rows = recorder.recorded_rows
