"""Section 6, left open: how several queries share resources. Joins over the same two streams with one memory for all,
beside an equal part for each, and the best parts there are for who knows all rows beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.dataclass import dataclass
from watersmeet.hosts.local.pull import Pull
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Result
from watersmeet.lab.papers.dgr03.joins import TICK_US
from watersmeet.lab.papers.dgr03.reading import everywhere, numbers
from watersmeet.lab.papers.dgr03.streams import RECONSTRUCTED, Settings, keys
from watersmeet.lab.papers.measuring import Repeated, SpreadLines
from watersmeet.lab.papers.running import session_of
from watersmeet.lab.workloads.zipf import zipf
from watersmeet.papers.shedding.arrivals import Arrivals, one_per_tick
from watersmeet.papers.shedding.optimum import optimum_curve
from watersmeet.runtime.script import read_script
from watersmeet.session import Session

SKEWS = {"hot": 1.0, "warm": 0.5, "cold": 0.0}
# What each of the joins compares, and its window as a part of w.
JOINS = (("hot", 1.0), ("cold", 1.0), ("hot", 0.25), ("warm", 0.5))
POOL, EQUAL, BEST, OPTIMUM = "one memory for all", "equal parts", "best fixed parts", "best fixed parts, OPT"
SHARED: Settings = {
    "small": {"window": 200, "domain": 50, "ticks": 3000, "draws": 1, "shares": (0.25, 0.5, 0.75), "parts": 24},
    "paper": {"window": 400, "domain": 50, "ticks": 5600, "draws": 3, "shares": (0.125, 0.25, 0.5, 0.75), "parts": 48},
    "10x": {"window": 400, "domain": 50, "ticks": 56_000, "draws": 1, "shares": (0.125, 0.25, 0.5, 0.75), "parts": 24},
}


@dataclass(frozen=True, eq=False)
class Joins:
    """Four joins over two streams, one row of each per tick."""

    streams: Mapping[str, pa.Table]
    window: int

    @property
    def windows(self) -> list[int]:
        return [round(self.window * part) for _, part in JOINS]

    @property
    def needed(self) -> int:
        """Rows in all windows."""
        return 2 * sum(self.windows)

    @property
    def warm_up(self) -> int:
        return 2 * self.window

    def arrivals(self, number: int) -> Arrivals:
        r, s = (self.streams[name][JOINS[number][0]].combine_chunks() for name in "rs")
        return one_per_tick(r, s, self.windows[number], counted_from=self.warm_up)

    def text(self, number: int, memory: int | None = None) -> str:
        column, window = JOINS[number][0], f"[RANGE {self.windows[number] * TICK_US} MICROSECONDS]"
        own = "" if memory is None else f", memory = '{memory} rows'"
        return (
            f"SELECT event_time() AS at FROM r {window}, s {window} WHERE r.{column} = s.{column} "
            f"OPTIONS (boundary = 'half_open', shed = 'prob'{own})"
        )


def drawn(trial: ExperimentTrial, draw: int) -> Joins:
    given = trial.settings
    ticks = pa.array(np.arange(given["ticks"], dtype=np.int64) * TICK_US, pa.timestamp("us"))
    columns: dict[str, dict[str, Any]] = {name: {"ts": ticks} for name in "rs"}
    for number, (name, skew) in enumerate(SKEWS.items()):
        seed = 1000 * trial.seed + 10 * draw + number
        made = zipf(2 * given["ticks"], seed=seed, domain=given["domain"], skew=skew, correlated=True)
        for stream, its in zip("rs", ("s1", "s2"), strict=True):
            columns[stream][name] = keys(made[its])
    return Joins({name: pa.table(its) for name, its in columns.items()}, given["window"])


def found(session: Session, text: str, warm_up: int) -> list[int]:
    """Results after the warm-up, of each query of a script."""
    runs = [PulledExecution(job.plan) for job in read_script(text, session.catalog.copy())]
    since = pa.scalar(warm_up * TICK_US, pa.int64()).cast(pa.timestamp("us"))
    counted = {id(run): 0 for run in runs}
    for run, block in Pull(runs).answers():
        if block is not None:
            counted[id(run)] += pc.sum(pc.greater_equal(block["at"], since)).as_py() or 0
    for run in runs:
        if run.failure is not None:
            raise run.failure
    return [counted[id(run)] for run in runs]


def recalls(joins: Joins, shares: Sequence[float], parts: int) -> dict[str, list[float]]:
    """The mean recall of the joins in each way, in percent; of the best fixed parts, all splits into so many parts are
    tried over what each join finds by itself."""
    session, unit = session_of(joins.streams), joins.needed // parts
    exact = [joins.arrivals(number).exact_results for number in range(len(JOINS))]
    mine, offline = [], []
    for number, window in enumerate(joins.windows):
        most = -(-2 * window // unit)  # with so many parts nothing is lost
        own = [found(session, joins.text(number, unit * one), joins.warm_up)[0] for one in range(1, most)]
        best = optimum_curve(joins.arrivals(number), unit * most, "fixed")
        mine.append([0.0, *(one / exact[number] for one in own), 1.0])
        offline.append([0.0, *(float(best[unit * one]) / exact[number] for one in range(1, most)), 1.0])
    lines: dict[str, list[float]] = {name: [] for name in (POOL, EQUAL, BEST, OPTIMUM)}
    for share in shares:
        have = round(share * parts)
        script = ";\n".join(joins.text(number) for number in range(len(JOINS)))
        pooled = found(session, f"SET memory = '{unit * have} rows';\n{script}", joins.warm_up)
        lines[POOL].append(sum(one / all_of for one, all_of in zip(pooled, exact, strict=True)))
        equal = [
            found(session, joins.text(number, unit * have // len(JOINS)), joins.warm_up)[0]
            for number in range(len(JOINS))
        ]
        lines[EQUAL].append(sum(one / all_of for one, all_of in zip(equal, exact, strict=True)))
        lines[BEST].append(best_split(mine, have))
        lines[OPTIMUM].append(best_split(offline, have))
    return {name: [100 * one / len(JOINS) for one in line] for name, line in lines.items()}


def best_split(curves: Sequence[Sequence[float]], parts: int) -> float:
    """The most that whole parts, given to whom they may, find together."""
    best = [0.0] * (parts + 1)
    for curve in curves:
        best = [
            max(best[have - own] + curve[min(own, len(curve) - 1)] for own in range(have + 1))
            for have in range(parts + 1)
        ]
    return best[parts]


def run_shared(trial: ExperimentTrial) -> Result:
    given = trial.settings
    draws: list[dict[str, list[float]]] = []
    for draw in range(given["draws"]):
        draws.append(recalls(drawn(trial, draw), given["shares"], given["parts"]))
        trial.tell(draw + 1, given["draws"])
    spread = SpreadLines()
    for place in range(len(given["shares"])):
        spread.add({name: Repeated.of([one[name][place] for one in draws]) for name in draws[0]})
    title = f"Four joins that share a memory, w = {given['window']}"
    percent = [100 * share for share in given["shares"]]
    return Result([spread.panel(title, "memory (% of what all windows need)", "mean recall (%)", percent)])


O3 = Experiment(
    "D-O3",
    "DGR03",
    "section 6, left open: how multiple queries can efficiently share resources",
    "Several queries can share resources; here joins share the memory of which each may lose rows.",
    SHARED,
    run_shared,
    [
        Check(
            "one memory for all finds more than equal parts, of every size",
            everywhere(lambda result: numbers(result, POOL) > numbers(result, EQUAL)),
        ),
        Check(
            "and at least 95 % of what the best fixed parts find, for which all rows must be known beforehand",
            everywhere(lambda result: numbers(result, POOL) >= 0.95 * numbers(result, BEST)),
        ),
        Check(
            "no more than what the best choice of rows in the best fixed parts finds, by OPT",
            everywhere(lambda result: numbers(result, POOL) <= numbers(result, OPTIMUM)),
            note="parts that move may in principle find more than fixed ones",
        ),
    ],
    data="generated: two streams with three keys each, drawn independently by Zipf's law with the parameters 1, 0.5 "
    "and 0, ranked alike in both; one row of each per tick (`lab:zipf`)",
    reconstructed=RECONSTRUCTED | {"all": "the paper only names this as future work; there is no figure"},
    note="The other half of the sentence, how to combine shedding with the choice of a join implementation, is not "
    "shown here: in bounded memory the engine's own join is always the one that runs.",
)
