"""The operator of a bucket, made of what its state holds.

Mostly of the rows in its log. One whose rows do not tell its state was saved whole; and of one that began with a
savepoint what it began with was, to which the rows of the log have come since.
"""

from __future__ import annotations

import numpy as np

from watersmeet.hosts.spark.bucket.log import BucketLog
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.model.time import BEGINNING_US, FOREVER_US
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.saving import Saved


def rebuilt(job: SparkJob, log: BucketLog) -> Operator:
    operator, state, manifest = job.make_operator(), log.saved(), log.manifest
    if state is not None:
        operator.load(Saved.from_bytes(state))
    if operator.is_kept_whole:
        assert state is not None
        return operator
    rows = {alias: log.rows(stream) for stream, alias in enumerate(job.aliases)}
    operator.begun_before([job.aliases[stream] for stream in manifest.begun], manifest.complete_until)
    if state is None:
        operator.restore(rows, manifest.complete_until, manifest.ends)
    else:
        _push(operator, log, rows)
    return operator


def _push(operator: Operator, log: BucketLog, rows: dict[str, Rows]) -> None:
    """What came since the operator was saved, and the ends of runs that others went on from, without answers."""
    manifest, rest = log.manifest, {alias: one.in_time_order() for alias, one in rows.items()}
    for end in manifest.ends:
        before = {alias: _between(one, BEGINNING_US, end.answered_us + 1) for alias, one in rest.items()}
        rest = {alias: _between(one, end.answered_us + 1, FOREVER_US) for alias, one in rest.items()}
        _take(operator, before, end.answered_us + 1)
        operator.pass_end(end, rows)
    _take(operator, rest, manifest.complete_until)


def _take(operator: Operator, rows: dict[str, Rows], until_us: int) -> None:
    for _ in operator.take(rows, dict.fromkeys(rows, until_us)):
        pass


def _between(rows: Rows, from_us: int, until_us: int) -> Rows:
    return rows.take(np.flatnonzero((rows.times >= from_us) & (rows.times < until_us)))
