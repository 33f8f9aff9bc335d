"""How the lab runs scripts of several queries: as anybody does, so that they share what the engine lets them share.

Seconds are of processor time, of this thread, from the first row on: reading and planning a script is not in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from time import thread_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.hosts.local.run_job import executions
from watersmeet.runtime.metrics import Metrics
from watersmeet.runtime.script import read_script
from watersmeet.runtime.sharing import fed_together
from watersmeet.session import Session

APART = " OPTIONS (share = 'no')"


@dataclass(frozen=True)
class RanScript:
    """What the queries of a script did, in their order.

    `sums` are of the rows that each gave: equal answers have equal ones. `most_bytes` is what the operators of each
    held at their most, added up, as if all ran at one time: those that share nothing run one after the other.
    """

    seconds: float
    most_bytes: int
    sums: Sequence[int]
    metrics: Sequence[Metrics]

    @property
    def results(self) -> int:
        return sum(one.results for one in self.metrics)


def run_script(session: Session, queries: Iterable[str], before: str = "") -> RanScript:
    """Run queries over the streams of a session; `before` is what stands before the first, such as SET."""
    jobs = read_script(before + ";\n".join(queries), session.catalog.copy())
    groups = [executions(group) for group in fed_together(jobs)]
    seconds, most_bytes, sums = 0.0, 0, dict.fromkeys((job.name for job in jobs), 0)
    metrics: dict[str, Metrics] = {}
    for runs in groups:
        held: dict[int, int] = {}
        given: dict[int, list[pa.RecordBatch]] = {}
        for run in runs.values():
            run.on_progress = partial(_noted, held, id(run))
        ones: list[PulledExecution] = list({id(one): one for one in runs.values()}.values())
        began = thread_time()
        for pulled, block in Pull(ones).answers():
            if block is not None:
                given.setdefault(id(pulled), []).append(block)
        seconds += thread_time() - began
        for name, run in runs.items():
            if run.failure is not None:
                raise run.failure
            sums[name] = sum(map(_sum_of, given.get(id(run), ()))) % 2**64
            metrics[name] = run.metrics
        most_bytes += sum(held.values())
    return RanScript(seconds, most_bytes, tuple(sums.values()), tuple(metrics[job.name] for job in jobs))


def _noted(held: dict[int, int], run: int, metrics: Metrics) -> None:
    held[run] = max(held.get(run, 0), metrics.state_bytes)


def _sum_of(block: pa.RecordBatch) -> int:
    """The same for the same rows, whatever blocks they come in: whole numbers, times and signs, mixed row by row."""
    mixed = np.full(block.num_rows, 0x9E3779B97F4A7C15, np.uint64)
    for column in block.columns:
        numbers = pc.equal(column, "+") if pa.types.is_string(column.type) else column
        values = numbers.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.uint64)
        mixed = (mixed ^ values) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(31)
    return int(mixed.sum(dtype=np.uint64))
