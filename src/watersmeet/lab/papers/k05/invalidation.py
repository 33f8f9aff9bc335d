"""What K05 says can be extended "easily": invalidation of other operators, and of windows that step, tumble or latch.

Formulas (papers/orders/cost_invalidation.py) beside what the engine's change logs hold. Aurora's latch moves like a
tumble and keeps state between its positions: that is an aggregate since a landmark, told once in a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import thread_time

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result
from watersmeet.lab.papers.k05.windowed_join import PAPER, Settings
from watersmeet.lab.papers.measuring import SpreadLines, query_over, repeated
from watersmeet.lab.papers.shapes import all_near, is_falling, line_of
from watersmeet.lab.workloads.steady import SECOND_US
from watersmeet.optimizer.cost.inputs import StreamRate
from watersmeet.papers.orders.cost_invalidation import (
    AnswerChanges,
    distinct_changes,
    except_all_changes,
    group_changes,
    intersect_all_changes,
    landmark_group_changes,
    stepping_group_changes,
    top_k_changes,
    union_all_changes,
)

WINDOW_S, STEP_S, FIRST = 30, 5, 100
SETTINGS: Settings = {
    "small": {"rates": (40, 20), "values": 800, "seconds": 240, "repeats": 3},
    "paper": {"rates": (400, 200), "values": 8000, "seconds": 600, "repeats": 5},
}
COUNTED, STEPS, SECONDS = range(3)


@dataclass(frozen=True)
class WindowedOperator:
    """A query with its windows left out, {w}, and what its answer should change by."""

    sql: str
    changes: AnswerChanges


def operators(a: StreamRate, b: StreamRate) -> dict[str, WindowedOperator]:
    both = "SELECT k FROM a {w} %s SELECT k FROM b {w}"
    return {
        "UNION ALL": WindowedOperator(both % "UNION ALL", union_all_changes(a, b)),
        "DISTINCT": WindowedOperator("SELECT DISTINCT k FROM a {w}", distinct_changes(a)),
        "UNION": WindowedOperator(both % "UNION", distinct_changes(a, b)),
        "GROUP BY": WindowedOperator("SELECT k, COUNT(*) AS n FROM a {w} GROUP BY k", group_changes(a)),
        "EXCEPT ALL": WindowedOperator(both % "EXCEPT ALL", except_all_changes(a, b)),
        "INTERSECT ALL": WindowedOperator(both % "INTERSECT ALL", intersect_all_changes(a, b)),
        f"ORDER BY LIMIT {FIRST}": WindowedOperator(
            f"SELECT x FROM a {{w}} ORDER BY x LIMIT {FIRST}", top_k_changes(a, FIRST)
        ),
    }


def windows(a: StreamRate) -> dict[str, tuple[str, float]]:
    """What is written, and the changes of GROUP BY that follow, a second."""
    since = "LANDMARK '1970-01-01'"
    return {
        "sliding": (f"[RANGE {WINDOW_S} SECONDS]", group_changes(a).total),
        f"slide of {STEP_S} s": (
            f"[RANGE {WINDOW_S} SECONDS SLIDE {STEP_S} SECONDS]",
            stepping_group_changes(a, STEP_S),
        ),
        "tumbling": (f"[RANGE {WINDOW_S} SECONDS SLIDE {WINDOW_S} SECONDS]", stepping_group_changes(a, WINDOW_S)),
        "landmark": (f"[{since} EVERY {WINDOW_S} SECONDS]", landmark_group_changes(a, WINDOW_S).total),
    }


def at_random(rate: float, seconds: int, values: int, seed: int) -> pa.Table:
    """Rows at random times, no two at one instant, with a value each and a number to order them by."""
    rng = np.random.default_rng(seed)
    times = np.unique(rng.integers(0, seconds * SECOND_US, rng.poisson(rate * seconds)))
    columns = {"k": rng.integers(0, values, times.size), "x": rng.random(times.size)}
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), **columns})


def invalidation(trial: ExperimentTrial) -> Result:
    given = trial.settings
    seconds, values = given["seconds"], given["values"]
    a, b = (StreamRate(name, rate, WINDOW_S, values) for name, rate in zip("ab", given["rates"], strict=True))
    tables = {
        one.name: at_random(one.rate, seconds, values, seed)
        for one, seed in zip((a, b), (trial.seed, trial.seed + 1000), strict=True)
    }
    found = operators(a, b)
    counted = {name: changes_a_second(one.sql, tables, seconds) for name, one in found.items()}
    trial.tell(1, 3)
    stepping = {name: stepping_changes(window, tables, seconds) for name, (window, _) in windows(a).items()}
    trial.tell(2, 3)
    return Result(
        [
            Panel(
                "Changes of an answer that arrivals and expiry cause, 30 s windows",
                "operator",
                "changes of the answer per second",
                list(found),
                {
                    "arrivals, counted": [one.by_arrival for one in counted.values()],
                    "arrivals, formula": [one.changes.by_arrival for one in found.values()],
                    "expiry, counted": [one.by_expiry for one in counted.values()],
                    "expiry, formula": [one.changes.by_expiry for one in found.values()],
                },
                y_log=True,
                bars=True,
            ),
            Panel(
                "Changes of GROUP BY by kind of window",
                "window",
                "changes of the answer per second",
                list(stepping),
                {"counted": list(stepping.values()), "formula": [formula for _, formula in windows(a).values()]},
                y_log=True,
                bars=True,
            ),
            _what_it_takes(found, tables, given["repeats"]),
        ],
        {"latched windows differ from the sums of tumbling ones": latch_error(tables["a"], seconds)},
    )


def changes_a_second(sql: str, tables: Mapping[str, pa.Table], seconds: int) -> AnswerChanges:
    """Counted once windows are full; a change at the instant of a row is an arrival's."""
    log = query_over(sql.format(w=f"[RANGE {WINDOW_S} SECONDS]"), tables).to_arrow()
    at = _microseconds(log["_ts"])
    arrivals = np.concatenate([_microseconds(table["ts"]) for table in tables.values()])
    steady = (at >= WINDOW_S * SECOND_US) & (at < seconds * SECOND_US)
    arrived = np.isin(at, arrivals) & steady
    span = seconds - WINDOW_S
    return AnswerChanges(int(arrived.sum()) / span, int((steady & ~arrived).sum()) / span)


def stepping_changes(window: str, tables: Mapping[str, pa.Table], seconds: int) -> float:
    """Over whole windows, so that none is cut: the instant of a step belongs to the step that ends there."""
    log = query_over(f"SELECT k, COUNT(*) AS n FROM a {window} GROUP BY k", {"a": tables["a"]}).to_arrow()
    at = _microseconds(log["_ts"])
    first, last = WINDOW_S, seconds // WINDOW_S * WINDOW_S - WINDOW_S
    return int(((at > first * SECOND_US) & (at <= last * SECOND_US)).sum()) / (last - first)


def latch_error(table: pa.Table, seconds: int) -> float:
    """A latched window is what is known since a landmark, told once in a step. Its counts must be the running sums of
    those of tumbling windows; the number of steps where they are not."""
    latch = f"SELECT RSTREAM COUNT(*) AS n FROM a [LANDMARK '1970-01-01'] EVERY {WINDOW_S} SECONDS"
    told = query_over(latch, {"a": table}).to_arrow()
    times = _microseconds(table["ts"])
    so_far = np.searchsorted(times, _microseconds(told["_ts"]), side="right")
    differ = int((so_far != told["n"].to_numpy()).sum())
    return differ if len(told) >= seconds // WINDOW_S - 1 else seconds


def _what_it_takes(found: Mapping[str, WindowedOperator], tables: Mapping[str, pa.Table], repeats: int) -> Panel:
    """The same rows with and without expiry: what is above the second line is the price of invalidation."""
    kinds = {"entering and leaving": f"[RANGE {WINDOW_S} SECONDS]", "entering only": "[LANDMARK '1970-01-01']"}
    rows = sum(table.num_rows for table in tables.values())

    def once(name: str, kind: str) -> float:
        query = query_over(found[name].sql.format(w=kinds[kind]), tables)
        started = thread_time()
        query.to_arrow()
        return float((thread_time() - started) / rows * 1e6)

    contenders = {(name, kind): partial(once, name, kind) for name in found for kind in kinds}
    took = repeated(contenders, repeats)
    lines = SpreadLines()
    for name in found:
        lines.add({kind: took[name, kind] for kind in kinds})
    title = "What rows take that enter and leave, and that only enter"
    return lines.panel(title, "operator", "µs per row of input", list(found), y_log=True, bars=True)


def _microseconds(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(column.cast(pa.int64()).to_numpy(), dtype=np.int64)


def _as_foreseen(result: Result, cause: str) -> bool:
    return all_near(line_of(result, f"{cause}, counted"), line_of(result, f"{cause}, formula"), 0.15)


def _on(result: Result, name: str, operator: str, panel: int = COUNTED) -> float:
    return line_of(result, name, panel)[list(result.panels[panel].x).index(operator)]


def _by_windows(result: Result) -> bool:
    return all_near(line_of(result, "counted", STEPS), line_of(result, "formula", STEPS), 0.15)


def _steps_save(result: Result) -> bool:
    """A tumbling window changes each group once in 30 s, a sliding one with every row."""
    kinds = ("sliding", f"slide of {STEP_S} s", "tumbling")
    return is_falling([_on(result, "counted", kind, STEPS) for kind in kinds])


def _fewest_of_the_first(result: Result) -> bool:
    counts = [_on(result, "expiry, counted", name) for name in ("UNION ALL", "DISTINCT", f"ORDER BY LIMIT {FIRST}")]
    return is_falling(counts)


def _leaving_is_cheap(result: Result) -> bool:
    both, entering = (line_of(result, name, SECONDS) for name in ("entering and leaving", "entering only"))
    return all(one <= 3 * other for one, other in zip(both, entering, strict=True))


O2 = Experiment(
    "K05-O2",
    PAPER,
    "Section 6: invalidation of operators other than joins, and of windows that step, tumble, latch or grow",
    "The analysis can be extended to any windowed operator, and to slide, tumble and latch windows.",
    SETTINGS,
    invalidation,
    [
        Check(
            "expiry changes each answer as often as the formulas say, within 15 %",
            lambda result: _as_foreseen(result, "expiry"),
        ),
        Check("and so do arrivals", lambda result: _as_foreseen(result, "arrivals")),
        Check(
            f"a row that leaves changes UNION ALL always, DISTINCT less often, the first {FIRST} least often",
            _fewest_of_the_first,
        ),
        Check("by kind of window, GROUP BY changes as often as the formulas say, within 15 %", _by_windows),
        Check("the longer the step, the fewer changes: tumbling fewest, sliding most", _steps_save),
        Check(
            "a latched window, read as an aggregate since a landmark told once in a step, has all rows so far",
            lambda result: result.numbers["latched windows differ from the sums of tumbling ones"] == 0,
        ),
        Check(
            "to leave costs a row at most twice the time that to enter does, in each operator",
            _leaving_is_cheap,
            timed=True,
            degree=True,
            why="it is a measure of this engine, of which the paper says nothing",
        ),
    ],
    data="generated: rows at random times, values drawn uniformly",
    reconstructed={"all": "the paper only says that the analysis can be extended; there is no figure"},
)
