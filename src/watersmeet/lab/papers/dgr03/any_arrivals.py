"""Rows that come at any time, and windows that count rows (D-O4), on the engine's own join.

The paper has one row of each stream per tick and says that its techniques can be generalised to both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Result
from watersmeet.lab.papers.dgr03.reading import WINDOW, Floats, everywhere, numbers, panel_of, up_to_w
from watersmeet.lab.papers.dgr03.streams import Settings, keys, memories_of
from watersmeet.lab.papers.running import session_of
from watersmeet.lab.workloads.zipf import zipf
from watersmeet.papers.shedding.arrivals import arrivals
from watersmeet.papers.shedding.optimum import optimum_curve

POLICIES = {"PROB": "prob", "RAND": "rand"}
FASTER = 3  # R has so many rows for each of S
ANY: Settings = {
    "small": {"window": 200, "rows": 3000, "domain": 50, "skew": 1.0, "draws": 1, "shares": (0.5, 1.0, 1.5)},
    "paper": {"window": 400, "rows": 11_200, "domain": 50, "skew": 1.0, "draws": 5},
}
DATA = (
    "generated: keys by Zipf's law, rows at random instants (exponential gaps), R three times as fast as S; each "
    "stream ranks the keys by a permutation of its own"
)


def streams(settings: dict[str, Any], seed: int) -> dict[str, pa.Table]:
    """R and S, whose windows hold w rows each on average: R's are three times as short."""
    rng = np.random.default_rng(seed)
    made = zipf(2 * settings["rows"], seed=seed, domain=settings["domain"], skew=settings["skew"])
    tables = {}
    for name, stream, gap_us in (("r", "s1", 1000), ("s", "s2", 1000 * FASTER)):
        drawn = keys(made[stream])
        drawn = drawn.slice(0, len(drawn) // (gap_us // 1000))  # so that both last as long
        at = np.cumsum(rng.exponential(gap_us, len(drawn)).astype(np.int64) + 1)
        tables[name] = pa.table({"k": drawn, "ts": pa.array(at, pa.timestamp("us"))})
    return tables


def found(tables: dict[str, pa.Table], windows: Sequence[str], policy: str | None, memory: int = 0) -> int:
    bound = f"memory = '{memory} rows', shed = '{policy}', allocation = 'variable', recall = 'none'"
    query = session_of(tables).sql(f"""
        SELECT r.k FROM r [{windows[0]}], s [{windows[1]}] WHERE r.k = s.k
        OPTIONS (boundary = 'half_open'{f", {bound}" if policy else ""})
    """)
    return sum(batch.num_rows for batch in query.batches())


def best(tables: dict[str, pa.Table], windows_us: tuple[int, int], sizes: list[int]) -> Floats:
    """OPT, of rows that come one by one."""
    times = np.concatenate([tables[name]["ts"].cast(pa.int64()).to_numpy() for name in "rs"])
    which = np.repeat([0, 1], [tables[name].num_rows for name in "rs"])
    order = np.argsort(times, kind="stable")
    drawn = pa.concat_arrays([keys(tables[name], "k") for name in "rs"]).take(pa.array(order))
    streams_ = arrivals(times[order], which[order], drawn, windows_us, one_by_one=True)
    return optimum_curve(streams_, max(sizes), "variable")[sizes] / streams_.exact_results


def run_any(trial: ExperimentTrial) -> Result:
    given = dict(trial.settings)
    window, sizes = given["window"], memories_of(given)
    spans_us = (window * 1000, window * 1000 * FASTER)
    in_time, in_rows = (f"RANGE {us} MICROSECONDS" for us in spans_us), (f"ROWS {window}",) * 2
    ways: dict[str, Sequence[str]] = {"windows in time": tuple(in_time), "windows that count rows": in_rows}
    panels = []
    for place, (words, windows) in enumerate(ways.items()):
        of_draws = []
        for seed in trial.seeds(given["draws"]):
            tables = streams(given, seed)
            exact = found(tables, windows, None)
            lines = {
                name: np.array([found(tables, windows, policy, m) / exact for m in sizes])
                for name, policy in POLICIES.items()
            }
            if not place:
                lines["OPT"] = best(tables, spans_us, sizes)
            of_draws.append(lines)
        trial.tell(place + 1, len(ways))
        title = f"found in bounded memory, rows at any time, {words}, w = {window} rows"
        panels.append(panel_of(title, "memory size (rows)", "share of EXACT", sizes, of_draws))
    return Result(panels, {WINDOW: window})


def over_rand(result: Result) -> Floats:
    ratios = [numbers(result, "PROB", panel) / numbers(result, "RAND", panel) for panel in (0, 1)]
    return np.array(ratios)[:, up_to_w(result)]


ANY_CHECKS = (
    Check("PROB finds 1.4 times as much as RAND at every memory up to w, in both kinds of windows", everywhere(
        lambda r: over_rand(r) >= 1.4)),
    Check("OPT, of rows at any time, is above PROB at every memory", everywhere(
        lambda r: numbers(r, "OPT") >= numbers(r, "PROB"))),
    Check("PROB is close to OPT: at least 80 % at every memory", everywhere(
        lambda r: numbers(r, "PROB") >= 0.8 * numbers(r, "OPT"))),
    Check("it makes little difference what a window goes by: PROB within 10 points", everywhere(
        lambda r: np.abs(numbers(r, "PROB") - numbers(r, "PROB", 1)) <= 0.1)),
)  # fmt: skip

O4 = Experiment("D-O4", "DGR03", "left open in section 1: rows at any time, and windows that count rows",
                "the techniques can be generalised to windows by number of rows and to asynchronous arrival",
                ANY, run_any, ANY_CHECKS, data=DATA,
                reconstructed={"rows": "at random instants, one stream three times as fast; the paper measures none of "
                                       "this"})  # fmt: skip
