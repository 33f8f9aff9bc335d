"""The joins of DGR03's experiments: the engine's own in bounded memory, the paper's model of it, and the optimum.

The engine runs as for any query. It learns the keys as they come, where the model is told their frequencies, and takes
rows a few at a time, which meet each other before they compete for memory.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.lab.papers.dgr03.streams import Pair
from watersmeet.lab.papers.running import session_of
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.papers.shedding.arrivals import Numbers
from watersmeet.papers.shedding.optimum import Allocation, optimum_curve
from watersmeet.papers.shedding.simulate import Policy, simulate

TICK_US = 1000


@dataclass(frozen=True, eq=False)
class Run:
    """What a join in bounded memory found after the warm-up, and, at some ticks, how many rows of each stream it held
    and after which tick that was. `beside`: how many more of each stream meet each other before they compete."""

    results: int
    ticks: Numbers
    held: Numbers
    beside: int = 0

    def memory_held(self, allocation: Allocation = "fixed") -> int:
        """The memory that rows had at any time, with those that had just come: where each stream has a half, twice what
        one held."""
        kept = 2 * self.held.max() if allocation == "fixed" else self.held.sum(axis=0).max()
        return int(kept) + 2 * self.beside


def engine(policy: str, pair: Pair, memory: int, allocation: Allocation = "fixed", seed: int = 1) -> Run:
    """The engine's own join."""
    ticks = pa.array(np.arange(len(pair.r), dtype=np.int64) * TICK_US, pa.timestamp("us"))
    session = session_of({name: pa.table({"k": k, "ts": ticks}) for name, k in (("r", pair.r), ("s", pair.s))})
    window = f"[RANGE {pair.window * TICK_US} MICROSECONDS]"
    run = PulledExecution(session.sql(f"""
        SELECT event_time() AS at FROM r {window}, s {window} WHERE r.k = s.k
        OPTIONS (boundary = 'half_open', memory = '{memory} rows', shed = '{policy}', allocation = '{allocation}',
                 shed_seed = {seed}, recall = 'none')
    """).plan)  # fmt: skip
    join = cast(BoundedMemory, run.operator.bounded)
    stores = join.shed
    seen: list[tuple[int, int, int]] = []
    run.on_step = lambda: seen.append((stores["r"].newest_us, stores["r"].kept, stores["s"].kept))
    since = pa.scalar(pair.warm_up * TICK_US, pa.int64()).cast(pa.timestamp("us"))
    results = sum(pc.sum(pc.greater_equal(batch["at"], since)).as_py() or 0 for batch in run.batches())
    newest, *held = np.array(seen, np.int64).T
    # The last steps are those that empty the windows.
    still = slice(0, int(np.searchsorted(newest, newest[-1])))
    beside = join.piece_rows if join.rows_in_hand is None else join.turns.rows
    return Run(int(results), newest[still] // TICK_US, np.array(held)[:, still], beside)


def model(policy: Policy, pair: Pair, memory: int, allocation: Allocation = "fixed", seed: int = 0) -> Run:
    """The paper's join, row by row, by a table of frequencies made from all rows."""
    until = simulate(pair.arrivals, policy, memory, allocation, seed=seed)
    held = pair.arrivals.stored(until)
    return Run(pair.arrivals.results(until), np.arange(held.shape[1]), held)


def offline(pair: Pair, most: int, allocation: Allocation = "fixed") -> Numbers:
    """What OPT finds, for every memory up to the most, and to what the engine may hold beyond it."""
    return optimum_curve(pair.arrivals, with_margin(most), allocation)


def with_margin(memory: int) -> int:
    """More than the engine holds at any time: rows that have just come, up to a thirty-second of the bound of each
    stream, lie beside what is kept (docs/shedding.md)."""
    return memory + memory // 8 + 8
