"""A run in this process that writes down what it lets go of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from watersmeet.archive.folder import Archive, OpenRun
from watersmeet.hosts.local.run import LocalRun
from watersmeet.model.catalog import Table
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.operators.keeping.durable import shedding_join_of
from watersmeet.plan.nodes import relations_below

WAITING_BYTES = 8 << 20


@contextmanager
def archiving(run: LocalRun) -> Iterator[None]:
    """Inside the block the run may be run; what it archives counts if the block ends well, and is gone if not."""
    shedding = run.plan.shedding
    if shedding is None or shedding.archive is None:
        yield
        return
    bounded = shedding_join_of(run.operator)
    assert bounded is not None
    bounded.start_recording()
    folder = Archive.for_writing(shedding.archive, run.plan).begin()
    try:
        writing = _Writing(run, bounded, folder)
        yield
        writing.finish()
    except BaseException:
        folder.abort()
        raise
    folder.commit()


def archived_batches(run: LocalRun) -> Iterator[pa.RecordBatch]:
    """The results of a run, archived if the plan asks for it; it counts when the last one was given."""
    with archiving(run):
        yield from run.batches()


class _Writing:
    """Takes records from the join before they need much memory."""

    def __init__(self, run: LocalRun, bounded: BoundedMemory, folder: OpenRun) -> None:
        self.metrics, self.bounded, self.folder = run.metrics, bounded, folder
        self.schemas = {one.name: one.schema for one in relations_below(run.plan.root) if isinstance(one, Table)}
        self.tables: dict[str, list[pa.RecordBatch]] = {name: [] for name in self.schemas}
        run.on_table, run.on_step = self.keep_table, self.step

    def keep_table(self, table: Table, data: pa.RecordBatch) -> None:
        self.tables[table.name].append(data)

    def step(self) -> None:
        self._write_tables()
        assert self.bounded.recorder is not None
        if self.bounded.recorder.waiting_bytes > WAITING_BYTES:
            self._write()

    def finish(self) -> None:
        self._write_tables()
        self._write()

    def _write_tables(self) -> None:
        for name, batches in self.tables.items():
            self.folder.write_table(name, pa.Table.from_batches(batches, self.schemas[name]))
        self.tables = {}

    def _write(self) -> None:
        recorder, counters = self.bounded.recorder, self.bounded.counters
        assert recorder is not None
        self.metrics.archived_bytes += self.folder.add(recorder.take(counters.results, counters.lost_results))
        self.metrics.archived_rows = recorder.recorded_rows
