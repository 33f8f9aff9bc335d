"""A processor that is too slow (D-A9, D-O2): rows are shed before they are joined, on the engine's own join.

The paper names two models and leaves both to later work. `modular`: what waits before the join knows how often keys
came and nothing of the join. `integrated`: it knows what the join holds. The engine has both (`max_lag`, `queue`). The
join that runs here is the product's; only its clock is made, so that the same seed gives the same numbers: a row that
is let in takes so many times as long as rows take to come.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Result
from watersmeet.lab.papers.dgr03.joins import TICK_US
from watersmeet.lab.papers.dgr03.reading import Floats, everywhere, lines_of_draws, numbers, panel_of
from watersmeet.lab.papers.dgr03.streams import DATA, Pair, Settings, draws
from watersmeet.lab.papers.running import session_of
from watersmeet.operators.contract import Rows
from watersmeet.operators.keeping.bounded import BoundedMemory
from watersmeet.runtime.build import build

WAYS = {
    "RAND": ("rand", "integrated"),
    "PROB, modular": ("prob", "modular"),
    "PROB, integrated": ("prob", "integrated"),
}
MAX_LAG = 100  # ticks
PIECE = 16  # rows of a stream that come together
SLOW: Settings = {
    "small": {"window": 400, "ticks": 2400, "domain": 50, "skew": 1.0, "draws": 1, "times": (1.0, 2.0, 4.0)},
    "paper": {"window": 400, "ticks": 5600, "domain": 50, "skew": 1.0, "draws": 6, "times": (1.0, 1.5, 2.0, 3.0, 5.0)},
}


@dataclass
class Processor:
    """Needs so many ticks for each row that it lets in, and tells the time in seconds."""

    ticks_per_row: float
    join: BoundedMemory
    idle: float = 0.0

    def __call__(self) -> float:
        assert self.join.queue is not None
        return (self.idle + self.ticks_per_row * self.join.queue.entered) * TICK_US / 1e6

    def wait_until(self, tick: float) -> None:
        self.idle += max(0.0, tick - self() * 1e6 / TICK_US)


def slowly(pair: Pair, policy: str, queue: str, memory: int, times_too_slow: float) -> tuple[float, float]:
    """The share of the exact answer that is given, and the longest lag, in ticks."""
    ticks = np.arange(len(pair.r), dtype=np.int64) * TICK_US
    tables = {
        name: pa.table({"k": keys, "ts": pa.array(ticks, pa.timestamp("us"))})
        for name, keys in (("r", pair.r), ("s", pair.s))
    }
    window = f"[RANGE {pair.window * TICK_US} MICROSECONDS]"
    operator = build(session_of(tables).sql(f"""
        SELECT event_time() AS at FROM r {window}, s {window} WHERE r.k = s.k
        OPTIONS (boundary = 'half_open', memory = '{memory} rows', shed = '{policy}', queue = '{queue}',
                 max_lag = '{MAX_LAG * TICK_US} microseconds', recall = 'none')
    """).plan)  # fmt: skip
    join = cast(BoundedMemory, operator.bounded)
    assert join.paced is not None
    # Two rows come each tick, so half a tick a row is just fast enough.
    join.paced.clock = processor = Processor(times_too_slow / 2, join)
    since = pa.scalar(pair.warm_up * TICK_US, pa.int64()).cast(pa.timestamp("us"))
    newest, found, lag = dict.fromkeys(tables, -(10**15)), 0, 0.0
    for begin in range(0, len(ticks), PIECE):
        for name, table in tables.items():
            batch = table.slice(begin, PIECE).combine_chunks().to_batches()[0]
            times = ticks[begin : begin + PIECE]
            processor.wait_until(times[-1] / TICK_US)
            newest[name] = int(times[-1])
            for answers in (operator.push(name, Rows(batch, times)), operator.advance(newest)):
                found += sum(pc.sum(pc.greater_equal(one["at"], since)).as_py() or 0 for one in answers)
            lag = max(lag, processor() * 1e6 / TICK_US - times[-1] / TICK_US)
    return found / pair.exact, lag


def run_slow(trial: ExperimentTrial) -> Result:
    window, times = trial.settings["window"], trial.settings["times"]
    panels, longest = [], 0.0
    for place, (words, memory) in enumerate((("room for all rows", 2 * window), ("room for half of them", window))):
        by_times = []
        for number, slow in enumerate(times):
            at_this = []
            for pair in draws(trial):
                seen = {name: slowly(pair, policy, queue, memory, slow) for name, (policy, queue) in WAYS.items()}
                longest = max(longest, *(lag for _, lag in seen.values()))
                at_this.append({name: share for name, (share, _) in seen.items()})
            by_times.append(at_this)
            trial.tell(place * len(times) + number + 1, 2 * len(times))
        title = f"found by a processor that is too slow, w = {window}, {words}"
        panels.append(panel_of(title, "times too slow", "share of EXACT", times, lines_of_draws(by_times)))
    return Result(panels, {"longest lag (ticks)": longest, "lag allowed (ticks)": MAX_LAG})


def too_slow(result: Result, name: str, panel: int = 0) -> Floats:
    """A line where the processor is twice too slow, or more."""
    return numbers(result, name, panel)[np.asarray(result.panels[panel].x, np.float64) >= 2]


def by_chance(result: Result) -> Floats:
    """A result is found if both its rows are let in: 1 / times² of them."""
    return 1 / np.asarray(result.panels[0].x, np.float64) ** 2


SLOW_CHECKS = (
    Check("no answer is later than the lag allowed, and the piece in hand",
          lambda r: r.numbers["longest lag (ticks)"] <= r.numbers["lag allowed (ticks)"] + 2 * PIECE),
    Check("a processor that is just fast enough finds at least 95 %, with room for all rows", lambda r: bool(
        min(numbers(r, name)[0] for name in WAYS) >= 0.95)),
    Check("RAND finds what chance gives it, with room for all rows: within a fifth", everywhere(
        lambda r: np.abs(numbers(r, "RAND") / by_chance(r) - 1) <= 0.2)),
    Check("PROB finds 1.5 times as much as RAND or more, by either model, wherever the processor is twice too slow",
          everywhere(lambda r: np.array([too_slow(r, name, panel) / too_slow(r, "RAND", panel)
                                         for name in list(WAYS)[1:] for panel in (0, 1)]) >= 1.5)),
    Check("knowing what the join holds finds more: integrated above modular in the mean", lambda r: bool(
        np.mean([too_slow(r, "PROB, integrated", p) - too_slow(r, "PROB, modular", p) for p in (0, 1)]) > 0)),
)  # fmt: skip

O2 = Experiment("D-O2", "DGR03", "left open in section 6: a processor that is too slow, modular and integrated",
                "shedding by keys before the join finds far more than by chance; integrated knows more than modular",
                SLOW, run_slow, SLOW_CHECKS, data=DATA,
                reconstructed={"times": "the paper measures none of this", "lag": "at most 100 ticks"},
                note="the join is the engine's; its clock is made, so that a row takes as long as the setting says",
                )  # fmt: skip
