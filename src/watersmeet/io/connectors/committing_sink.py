"""A sink of numbered batches for a run without a checkpoint: rows are committed as they come, so many at a time.

What was committed stays if the run fails later: where others read along, nothing can be taken back.
"""

from __future__ import annotations

import pyarrow as pa

from watersmeet.io.connectors.contract import NumberedSink

COMMIT_ROWS = 1 << 18


class CommittingSink:
    def __init__(self, sink: NumberedSink) -> None:
        self._sink = sink
        self._number = 0
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            self._rows += batch.num_rows
        if self._rows >= COMMIT_ROWS:
            self._commit()

    def close(self) -> None:
        if self._waiting:
            self._commit()
        self._sink.close()

    def abort(self) -> None:
        self._sink.close()

    def _commit(self) -> None:
        self._sink.commit(self._number, self._waiting)
        self._number += 1
        self._waiting, self._rows = [], 0
