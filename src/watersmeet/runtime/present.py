"""What an answer that changes is now: its changes so far, added up."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.answers import Answer, as_batches
from watersmeet.operators.continuous.delta import joined
from watersmeet.plan.nodes import AT, OP
from watersmeet.plan.query import Plan
from watersmeet.runtime.final import final_answer, in_order

# Changes are added up when there are twice as many as rows in the answer, and not before there are some: so few that it
# takes a millisecond or two, as rows wait meanwhile.
FEWEST_ROWS = 1 << 12


class PresentAnswer:
    """Keeps the rows of the answer, and the changes since those were last added up, so memory stays near the size of
    the answer."""

    STATE = ("held", "since")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._rows = plan.schema.empty_table()
        self._changes: list[Answer] = []
        self._changed_rows = 0

    def add(self, changes: Answer, until_us: int = FOREVER_US) -> None:
        """until_us: changes after this instant do not count; where they do not, all are added up at once."""
        if until_us < FOREVER_US:
            self._add_up(FOREVER_US)
        self._changes.append(changes)
        self._changed_rows += changes.num_rows
        if until_us < FOREVER_US or self._changed_rows > max(2 * self._rows.num_rows, FEWEST_ROWS):
            self._add_up(until_us)

    @property
    def held(self) -> pa.RecordBatch:
        """The rows that were last added up, as one batch."""
        parts = self._rows.combine_chunks().to_batches()
        return parts[0] if parts else pa.RecordBatch.from_pylist([], schema=self._rows.schema)

    @held.setter
    def held(self, rows: pa.RecordBatch) -> None:
        self._rows = pa.Table.from_batches([rows])
        self._changes, self._changed_rows = [], 0

    @property
    def since(self) -> pa.RecordBatch:
        """What has changed since then."""
        return joined(as_batches(self._changes), self.plan.output_schema)

    @since.setter
    def since(self, changes: pa.RecordBatch) -> None:
        self._changes, self._changed_rows = [changes], changes.num_rows

    def table(self) -> pa.Table:
        self._add_up(FOREVER_US)
        return in_order(self._rows, self.plan)

    def _add_up(self, until_us: int) -> None:
        if self._changes:
            schema = self.plan.output_schema
            before = pa.table(
                [
                    pa.repeat(pa.scalar("+"), self._rows.num_rows),
                    pa.repeat(pa.scalar(BEGINNING_US, schema.field(AT).type), self._rows.num_rows),
                    *self._rows.columns,
                ],
                schema=schema,
            )
            assert schema.names[:2] == [OP, AT]
            log = pa.concat_tables([before, pa.Table.from_batches([joined(as_batches(self._changes), schema)])])
            self._rows = final_answer(log, self.plan, until_us)
        self._changes, self._changed_rows = [], 0
