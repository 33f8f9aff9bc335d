"""What a query tells whose tuples take their time on their way through it (H04, Figure 2): by probing, or by the clock
of each operator."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.errors import OptionError
from watersmeet.lab.papers.running import opened, part_of
from watersmeet.operators.continuous.node import everything_below
from watersmeet.operators.continuous.pipeline import Continuous
from watersmeet.papers.pipelines.group_by import Contents
from watersmeet.papers.pipelines.voluntary import Delays, slow_down
from watersmeet.session import Session

TOLD = "_told"


def told_on_slow_paths(
    session: Session, sql: str, delays: Delays, *, every_us: int = 1_000_000, by_own_clock: bool = False
) -> pa.Table:
    """The log of an answer that changes, with the instant at which each change was told.

    sql: with OPTIONS (pipeline = 'tpa_scan'). delays: how long tuples of these times take from the scans to the
    operators above, both in microseconds. every_us: how often operators have a turn. by_own_clock: whether they let go
    what has expired by the time that it is, without asking what is on its way, which is wrong.
    """
    built, batches = opened(session, sql)
    operator = built.operator
    contents = [] if not isinstance(operator, Continuous) else list(_answers(operator))
    if not contents:
        raise OptionError(
            "only operators that H04 prints have slow paths between them",
            option="pipeline",
            hint="write OPTIONS (pipeline = 'tpa_scan'), without a schedule",
        )
    paths = slow_down(contents[0], delays, voluntary=by_own_clock)
    times = np.concatenate([rows.times for rows in batches.values()])
    last = times + delays(times) + max(int(path.windows.max()) for path in paths)
    told: list[pa.Table] = []
    taken = dict.fromkeys(batches, 0)
    for now in range(int(times.min()), int(last.max()) + 2 * every_us, every_us):
        for alias, rows in batches.items():
            upto = int(np.searchsorted(rows.times, now, side="right"))
            told += _as_told(operator.push(alias, part_of(rows, taken[alias], upto)), now)
            taken[alias] = upto
        told += _as_told(operator.advance(dict.fromkeys(batches, now + 1)), now)
    return pa.concat_tables(told)


def _answers(operator: Continuous) -> list[Contents]:
    """What the log of the answer is made of, the outermost first."""
    return [node for node in everything_below(operator.root) if isinstance(node, Contents)]


def _as_told(batches: object, now: int) -> list[pa.Table]:
    at = pa.scalar(now, pa.timestamp("us"))
    return [
        pa.Table.from_batches([batch]).append_column(TOLD, pa.array([at] * batch.num_rows, at.type))
        for batch in batches  # type: ignore[attr-defined]
    ]
