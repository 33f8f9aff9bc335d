"""The static tables of queries that are started together: each is read once, and its rows go to all that join it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from watersmeet.hosts.local.execution import BATCH_ROWS, Execution
from watersmeet.io.time_ordered import batches_of
from watersmeet.model.catalog import Table
from watersmeet.runtime.reloading import loaded

Failed = Callable[[Execution, Exception], None]


def load_tables_of(executions: Sequence[Execution], failed: Failed) -> None:
    """failed: hears of each that cannot go on, and why. What cannot be read is so for all that join it; rows that one
    of them cannot take are its own matter."""
    left = list(executions)

    def fail(execution: Execution, error: Exception) -> None:
        left.remove(execution)
        failed(execution, error)

    for table in _tables_of(executions):
        joining = [one for one in left if any(table is other for other in one.tables_to_load)]
        try:
            for batch in _rows_of(table, joining):
                for execution in [one for one in joining if one in left]:
                    _attempt(execution, table, batch, fail)
        except Exception as error:
            for execution in [one for one in joining if one in left]:
                fail(execution, error)


def _attempt(execution: Execution, table: Table, batch: pa.RecordBatch, fail: Failed) -> None:
    try:
        execution.load_table(table, batch)
    except Exception as error:
        fail(execution, error)


def _tables_of(executions: Sequence[Execution]) -> list[Table]:
    """Those of one name may have been declared anew between two plans."""
    found = {id(table): table for one in executions for table in one.tables_to_load}
    return list(found.values())


def _rows_of(table: Table, joining: Sequence[Execution]) -> Iterable[pa.RecordBatch]:
    """Those that may be loaded again are held, by all together."""
    if table.reload_us is None:
        return batches_of(table, BATCH_ROWS)
    rows = loaded(table)
    for execution in joining:
        execution.hold_table(table, rows)
    return rows
