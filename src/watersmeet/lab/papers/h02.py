"""H02: Hammad, Aref and Elmagarmid, Joining Multiple Data Streams with Window Constraints (2002).

The paper plots the service time of an arriving row, averaged over 1000 arrivals, and says that it follows the number
of comparisons. Here comparisons decide, as they are the same on every machine: those of times, of join attributes, and
those that ask whether a row can go, one each. Rows looked at and processor time are shown beside them.

What the paper does not say, and what is used: its synthetic streams have windows of 1 second (the longest of its
section 5.3) and 1000 values, about one partner in a window at 1000 rows a second. `Variable rates between 1000 and 100`
are constant rates spread evenly between them. `5000 transactions an hour per all streams` is of all stores together.
How often items recur in the sales is not said either. Figure 9(b) turned out to depend on it, so that it is run twice:
with 10,000 items, at which a row has 0.7 partners in the mean if there are 2 streams, and with 100,000.
Runs of `paper` scale last a minute, or a week of sales; 10x and 100x are as many times longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Panel, Result, Scale
from watersmeet.lab.papers.running import Served, have_flights, real_flights, serve, session_of
from watersmeet.lab.workloads.poisson import poisson
from watersmeet.lab.workloads.retail import DAY_US, stores
from watersmeet.papers.joins.contract import Algorithm
from watersmeet.papers.joins.description import JoinDescription
from watersmeet.papers.joins.merge_join import MergeJoin
from watersmeet.papers.joins.pipeline_join import PipelineJoin
from watersmeet.session import Session

Settings = dict[Scale, dict[str, Any]]

PAPER = "H02"
OPTIONS = {
    "ripple join": "join = 'ripple'",
    "XJoin": "join = 'xjoin'",
    "NLW-join": "join = 'nlw'",
    "HW-join": "join = 'hw'",
    "MW-join": "join = 'merge'",
    "GCA": "join = 'merge', windows = 'gca'",
    "LCA": "join = 'merge', windows = 'lca'",
}
NLW, MW, HW, RIPPLE, XJOIN = "NLW-join", "MW-join", "HW-join", "ripple join", "XJoin"
# How the paper's prototype reads a backlog: streams in turn, whatever their times. No option of a query asks for it.
IN_TURNS: dict[str, Callable[[JoinDescription], Algorithm]] = {
    NLW: lambda description: PipelineJoin(description, turns="alternate"),
    MW: lambda description: MergeJoin(description, clocked=False),
}

SALES = {"per_hour": 5000, "items": 10_000, "described": True, "window": "1 HOUR"}
RETAIL: Settings = {
    "small": {**SALES, "days": 2},
    "paper": {**SALES, "days": 7},
    "10x": {**SALES, "days": 70, "described": False},  # descriptions alone would be 700 MB
}
PURGE_BLOCKS = 10  # the baselines look over their buffers every 10 000 arrivals, which are so many blocks
NUMBERS = {"keys": 1000, "window": "1 SECOND"}
SECONDS: dict[Scale, float] = {"small": 8, "paper": 60, "10x": 600, "100x": 6000}
SLOW_AND_FAST = [(10, 100), (1000, 100)]  # 100 rows at 10 a second, then 100 at 1000
FASTEST, SLOWEST = 1000, 100

FIGURE_7: Settings = {scale: {**one, "ways": (2, 3, 4)} for scale, one in RETAIL.items()}
FIGURE_9A: Settings = {
    scale: {**NUMBERS, "seconds": seconds, "ways": (2, 3, 4, 5, 6), "rates": (FASTEST, SLOWEST), "backlog_seconds": 8}
    for scale, seconds in SECONDS.items()
}
RARE, FREQUENT = 100_000, 10_000  # items
FIGURE_9B: Settings = {
    scale: {**one, "days": max(1, one["days"] // 2), "items": (RARE, FREQUENT), "ways": (2, 3, 4, 5, 6)}
    for scale, one in RETAIL.items()
}
FIGURE_9C: Settings = {
    scale: {
        **NUMBERS,
        "seconds": seconds,
        "rates": {"all at 1000/s": (1000, 1000, 1000, 1000), "D at 10 or 1000/s": (1000, 1000, 1000, SLOW_AND_FAST)},
    }
    for scale, seconds in SECONDS.items()
}
FIGURE_13: Settings = {
    scale: {"keys": 1000, "seconds": seconds, "rate": 1000, "wide": "1 SECOND", "narrow": (0.8, 0.1)}
    for scale, seconds in SECONDS.items()
}
FIGURE_14: Settings = {
    scale: {
        **NUMBERS,
        "seconds": seconds,
        "rates": {"small variation": (1000, 950, 900, 850), "large variation": (1000, 700, 400, 100)},
    }
    for scale, seconds in SECONDS.items()
}
# Timestamps that satisfy what the paper says of its Figures 2, 3 and 6 with a window of 10: times of a to e, and for
# Figure 2 the keys of its black (1) and white (2) dots. Then combinations that must be found, by their times.
EXAMPLES: dict[str, dict[str, Any]] = {
    "Figure 2": {
        "times": [[20], [13, 16, 19, 22, 35], [15, 18, 23], [3, 21], [8, 24]],
        "keys": [[1], [2, 1, 1, 1, 1], [1, 2, 1], [1, 1], [1, 1]],
        "named": [(20, b, c, 21, 24) for b in (16, 19, 22) for c in (15, 23)],
        "of": 6,
    },
    "Figure 3": {
        "times": [[12], [11, 20], [14], [13], [8]],
        "named": [(12, 11, 14, 13, 8)],
        "of": 1,
    },
    "Figure 6": {
        "times": [[10, 23, 30], [11, 21, 25, 30], [16, 31], [2, 22, 30], [9, 20, 29]],
        "named": [(23, 21, 16, 22, 20), (23, 25, 16, 22, 20)],
        "of": None,
    },
}


# ---- queries and runs -----------------------------------------------------------------------------------------------


def join_sql(streams: Iterable[str], key: str, windows: str, options: str, select: str | None = None) -> str:
    """A join of streams on one key, under the aliases a, b, c and so on."""
    named = dict(zip("abcdefgh", streams, strict=False))
    aliases = list(named)
    sources = ", ".join(f"{stream} AS {alias}" for alias, stream in named.items())
    equal = " AND ".join(f"{x}.{key} = {y}.{key}" for x, y in pairwise(aliases))
    return f"SELECT {select or f'a.{key}'} FROM {sources} WHERE {equal} {windows} OPTIONS ({options})"


def warm_up(lines: Iterable[str]) -> None:
    """Load the kernels, so that no figure has the time of it."""
    session = session_of(poisson(dict.fromkeys("abc", 1000.0), seconds=0.05, keys=5))
    for line in lines:
        serve(session, join_sql("abc", "k", "WINDOW = 10 MILLISECONDS", OPTIONS[line]))


def compare(
    trial: ExperimentTrial,
    lines: Sequence[str],
    cases: Mapping[Any, Session],
    sql: Callable[[Any, str], str],
) -> dict[tuple[Any, str], Served]:
    """Run every algorithm on every case; `sql` gives the query of a case with the options of a line."""
    warm_up(lines)
    found: dict[tuple[Any, str], Served] = {}
    for case, session in cases.items():
        for line in lines:
            trial.tell(len(found), len(cases) * len(lines))
            found[case, line] = serve(session, sql(case, OPTIONS[line]))
    trial.tell(len(found), len(found))
    return found


def panels_of(served: Mapping[tuple[Any, str], Served], x_label: str) -> list[Panel]:
    """Comparisons, rows looked at and time for each arrival, over the cases."""
    cases = list(dict.fromkeys(case for case, _ in served))
    lines = list(dict.fromkeys(line for _, line in served))

    def panel(title: str, y_label: str, of: Callable[[Served], float]) -> Panel:
        drawn = {line: [of(served[case, line]) for case in cases] for line in lines}
        return Panel(title, x_label, y_label, cases, drawn, y_log=True, bars=isinstance(cases[0], str))

    return [
        panel("Comparisons", "comparisons per arrival", lambda one: one.mean_comparisons),
        panel("Rows looked at", "rows per arrival", lambda one: one.mean_touched),
        panel("Service time", "µs per arrival", lambda one: one.mean_seconds * 1e6),
    ]


COMPARISONS, TOUCHED, TIME = range(3)


def curve_of(served: Mapping[tuple[Any, str], Served], case: Any, title: str) -> Panel:
    """Comparisons of one case as time goes on, a point for each 1000 arrivals."""
    lines = {line: one for (which, line), one in served.items() if which == case}
    x = next(iter(lines.values())).arrivals.tolist()
    drawn = {line: one.comparisons.tolist() for line, one in lines.items()}
    return Panel(title, "tuples processed", "comparisons per arrival", x, drawn)


def speeds(served: Mapping[tuple[Any, str], Served]) -> dict[str, float]:
    return {f"rows/s, {line}, {case}": 1 / one.mean_seconds for (case, line), one in served.items()}


def values(result: Result, line: str, panel: int = COMPARISONS) -> list[float]:
    return [float(value) for value in result.line(line, panel) if value is not None]


def below(result: Result, less: str, more: str, panel: int = COMPARISONS) -> bool:
    """Whether one line lies below another everywhere."""
    return all(x < y for x, y in zip(values(result, less, panel), values(result, more, panel), strict=True))


def ratios(result: Result, top: str, bottom: str, panel: int = COMPARISONS) -> list[float]:
    return [x / y for x, y in zip(values(result, top, panel), values(result, bottom, panel), strict=True)]


# ---- Figures 7 and 8: sales, against the adapted ripple join and XJoin ----------------------------------------------


def sales_of(trial: ExperimentTrial) -> dict[int, Session]:
    wanted = {name: trial.settings[name] for name in ("days", "per_hour", "items", "described")}
    return {ways: session_of(stores(ways, **wanted, seed=trial.seed)) for ways in trial.settings["ways"]}


def sold_in_all(trial: ExperimentTrial) -> Callable[[int, str], str]:
    """The paper's Example 1: items sold by all stores within the window."""

    def sql(ways: int, options: str) -> str:
        names = [f"store_{i + 1}" for i in range(ways)]
        return join_sql(names, "item_id", f"WINDOW = {trial.settings['window']}", options)

    return sql


def run_sales(trial: ExperimentTrial, lines: Sequence[str]) -> Result:
    served = compare(trial, lines, sales_of(trial), sold_in_all(trial))
    numbers = speeds(served)
    for (ways, line), one in served.items():
        numbers[f"last day / first day, {line}, {ways}"] = last_to_first_day(one)
        numbers[f"quietest / busiest 1000, {line}, {ways}"] = float(one.comparisons.min() / one.comparisons.max())
        numbers[f"before / after a purge, {line}, {ways}"] = before_to_after_purge(one)
    curves = [curve_of(served, ways, f"{ways}-way join") for ways in trial.settings["ways"]]
    return Result([*panels_of(served, "streams"), *curves], numbers)


def last_to_first_day(one: Served) -> float:
    days = one.times_us // DAY_US
    return float(one.comparisons[days == days[-1]].mean() / one.comparisons[days == days[0]].mean())


def before_to_after_purge(one: Served) -> float:
    """Rows looked at in the last block before the buffers are looked over, and in the first after."""
    whole = one.touched[: one.touched.size // PURGE_BLOCKS * PURGE_BLOCKS].reshape(-1, PURGE_BLOCKS)
    return float(whole[:-1, -1].mean() / whole[1:, 0].mean())


def steady(result: Result, lines: Sequence[str]) -> bool:
    """Whether a later day costs what the first did, for all numbers of streams."""
    found = [result.numbers[f"last day / first day, {line}, {ways}"] for line in lines for ways in ways_of(result)]
    return all(0.8 <= one <= 1.25 for one in found)


def ways_of(result: Result) -> Sequence[Any]:
    return result.panels[COMPARISONS].x


SPARES_NO_COMPARISONS = (
    "it looks at fewer rows, but asks each of them also whether it can go; where most rows are in the window that "
    "is more than passing by the stale ones of the baseline"
)
TIME_ORDER = (
    "rows come in time order over all streams here, so NLW holds hardly a row that is out of reach: it makes three "
    "comparisons for each row where MW makes one. Read in turns from a backlog, whatever their times, the factor is "
    "the one given as `NLW / MW, read in turns`"
)

FIGURE_7_CHECKS = (
    Check(
        "MW makes the fewest comparisons with 2, 3 and 4 streams",
        lambda result: below(result, MW, NLW) and below(result, MW, RIPPLE),
    ),
    Check(
        "MW has the shortest service time",
        lambda result: below(result, MW, NLW, TIME) and below(result, MW, RIPPLE, TIME),
        timed=True,
    ),
    Check(
        "NLW looks at fewer rows than the ripple join in all cases", lambda result: below(result, NLW, RIPPLE, TOUCHED)
    ),
    Check("NLW and MW do not build up from day to day", lambda result: steady(result, (NLW, MW))),
    Check(
        "with 2 streams the curves rise and fall steeply with the opening hours",
        lambda result: all(result.numbers[f"quietest / busiest 1000, {line}, 2"] < 0.35 for line in (NLW, MW)),
    ),
    Check(
        "NLW makes fewer comparisons than the ripple join in all cases",
        lambda result: below(result, NLW, RIPPLE),
        essential=False,
        why=SPARES_NO_COMPARISONS,
    ),
    Check(
        "NLW has a shorter service time than the ripple join in all cases",
        lambda result: below(result, NLW, RIPPLE, TIME),
        essential=False,
        why=SPARES_NO_COMPARISONS + ", and compiled loops pass by stale rows fast",
        timed=True,
    ),
    Check(
        "MW is almost an order of magnitude (8 times) better than NLW",
        lambda result: min(ratios(result, NLW, MW)) >= 8,
        essential=False,
        why="rows come in time order over all streams here, so NLW holds hardly a row that is out of reach: it makes "
        "three comparisons for each row where MW makes one",
    ),
)
FIGURE_8_CHECKS = (
    Check("HW looks at fewer rows than XJoin in all cases", lambda result: below(result, HW, XJOIN, TOUCHED)),
    Check(
        "XJoin builds up between two purges, HW does not",
        lambda result: all(
            result.numbers[f"before / after a purge, {XJOIN}, {ways}"] > 1.2
            and result.numbers[f"before / after a purge, {HW}, {ways}"] < 1.2
            for ways in ways_of(result)
        ),
    ),
    Check("HW does not build up from day to day", lambda result: steady(result, (HW,))),
    Check(
        "HW makes fewer comparisons than XJoin in all cases",
        lambda result: below(result, HW, XJOIN),
        essential=False,
        why=SPARES_NO_COMPARISONS,
    ),
    Check(
        "HW has a shorter service time than XJoin in all cases",
        lambda result: below(result, HW, XJOIN, TIME),
        essential=False,
        why=SPARES_NO_COMPARISONS,
        timed=True,
    ),
)


# ---- Figure 9: more streams, and one that is now slow and now fast --------------------------------------------------


def spread_rates(trial: ExperimentTrial, ways: int, seconds: float) -> Session:
    """Streams s0, s1 and so on with constant rates from the fastest to the slowest."""
    fastest, slowest = trial.settings["rates"]
    rates = {f"s{i}": float(rate) for i, rate in enumerate(np.linspace(fastest, slowest, ways))}
    return session_of(poisson(rates, seconds=seconds, keys=trial.settings["keys"], seed=trial.seed))


def run_variable_rates(trial: ExperimentTrial) -> Result:
    def sql(ways: int, options: str) -> str:
        return join_sql([f"s{i}" for i in range(ways)], "k", f"WINDOW = {trial.settings['window']}", options)

    sessions = {ways: spread_rates(trial, ways, trial.settings["seconds"]) for ways in trial.settings["ways"]}
    served = compare(trial, (NLW, MW, HW), sessions, sql)
    numbers = speeds(served)
    for ways in sessions:
        backlog = spread_rates(trial, ways, trial.settings["backlog_seconds"])
        nlw, mw = (serve(backlog, sql(ways, OPTIONS[line]), algorithm=IN_TURNS[line]) for line in (NLW, MW))
        numbers[f"NLW / MW, read in turns, {ways}"] = nlw.mean_comparisons / mw.mean_comparisons
    return Result(panels_of(served, "streams"), numbers)


def run_comparable_rates(trial: ExperimentTrial) -> Result:
    """All panels for each number of items, those of rare items first."""
    panels: list[Panel] = []
    numbers: dict[str, float] = {}
    for items in trial.settings["items"]:
        one = replace(trial, settings={**trial.settings, "items": items})
        served = compare(one, (NLW, MW, HW), sales_of(one), sold_in_all(one))
        panels += [replace(panel, title=f"{panel.title}, {items} items") for panel in panels_of(served, "streams")]
        numbers |= {f"{name}, {items} items": value for name, value in speeds(served).items()}
    return Result(panels, numbers)


def converge(result: Result, panel: int) -> bool:
    """Whether the factor between NLW and MW has fallen by a quarter or more from the fewest to the most streams."""
    factors = ratios(result, NLW, MW, panel)
    return factors[-1] <= 0.75 * factors[0]


def run_slow_and_fast(trial: ExperimentTrial) -> Result:
    return four_streams(trial, (NLW, MW, HW), f"WINDOW = {trial.settings['window']}")


def four_streams(trial: ExperimentTrial, lines: Sequence[str], windows: str) -> Result:
    """Streams a to d, for each of the settings' rates."""
    wanted = trial.settings
    sessions = {
        case: session_of(
            poisson(
                dict(zip("abcd", rates, strict=True)), seconds=wanted["seconds"], keys=wanted["keys"], seed=trial.seed
            )
        )
        for case, rates in wanted["rates"].items()
    }
    served = compare(trial, lines, sessions, lambda _, options: join_sql("abcd", "k", windows, options))
    return Result(panels_of(served, ""), speeds(served))


def after_to_before(result: Result, line: str) -> float:
    """What the second case costs for each comparison of the first."""
    first, second = values(result, line)
    return second / first


def hashed_best(result: Result, panel: int = COMPARISONS) -> bool:
    return below(result, HW, MW, panel) and below(result, HW, NLW, panel)


FIGURE_9A_CHECKS = (
    Check("HW makes the fewest comparisons with any number of streams", hashed_best),
    Check("MW makes fewer comparisons than NLW with any number", lambda result: below(result, MW, NLW)),
    Check(
        "the gap between MW and NLW is kept as streams are added",
        lambda result: ratios(result, NLW, MW)[-1] >= 0.8 * ratios(result, NLW, MW)[0],
    ),
    Check(
        "MW is more than 10 times better than NLW",
        lambda result: min(ratios(result, NLW, MW)) > 10,
        essential=False,
        why=TIME_ORDER,
    ),
)
AT_FREQUENT = COMPARISONS + 3  # the panel
FIGURE_9B_CHECKS = (
    Check(
        "HW makes the fewest comparisons with any number of streams",
        lambda result: hashed_best(result) and hashed_best(result, AT_FREQUENT),
    ),
    Check(
        "NLW and MW converge as streams are added, where items are rare", lambda result: converge(result, COMPARISONS)
    ),
    Check(
        "NLW and MW converge where items are frequent, too",
        lambda result: converge(result, AT_FREQUENT),
        essential=False,
        why="where most items have partners in every window, NLW holds ever more partial combinations as streams are "
        "added, and scans them as MW scans its buffers; which of the two cases the paper's sales were is not known",
    ),
)
FIGURE_9C_CHECKS = (
    Check("MW improves greatly: less than half the comparisons", lambda result: after_to_before(result, MW) < 0.5),
    Check(
        "NLW and HW change by less than a third",
        lambda result: all(2 / 3 < after_to_before(result, line) < 4 / 3 for line in (NLW, HW)),
    ),
    Check(
        "MW's service time falls too, to less than two thirds",
        lambda result: values(result, MW, TIME)[1] < 2 / 3 * values(result, MW, TIME)[0],
        timed=True,
        essential=False,
        why="where windows hold few rows, what every row costs anyway outweighs its comparisons",
    ),
)


# ---- Figures 13 and 14: windows that differ, and paths --------------------------------------------------------------


def run_conservative(trial: ExperimentTrial) -> Result:
    """One pair with the wide window, all others with a narrow one."""
    wanted = trial.settings
    rates = dict.fromkeys("abcd", wanted["rate"])
    session = session_of(poisson(rates, seconds=wanted["seconds"], keys=wanted["keys"], seed=trial.seed))

    def sql(narrow: float, options: str) -> str:
        sizes = dict.fromkeys(combinations("abcd", 2), f"{narrow} SECONDS") | {("a", "b"): wanted["wide"]}
        windows = " AND ".join(f"WINDOW ({x}, {y}) = {size}" for (x, y), size in sizes.items())
        return join_sql("abcd", "k", windows, options)

    served = compare(trial, ("GCA", "LCA"), dict.fromkeys(wanted["narrow"], session), sql)
    return Result(panels_of(served, "the narrow windows, in seconds; the wide one has 1"), speeds(served))


def run_path(trial: ExperimentTrial) -> Result:
    size = trial.settings["window"]
    return four_streams(trial, ("LCA", NLW), f"WINDOW PATH (a, b, c, d) = ({size}, {size}, {size})")


FIGURE_13_CHECKS = (
    Check("LCA makes fewer comparisons than GCA, even for 0.8 instead of 1 second", lambda r: below(r, "LCA", "GCA")),
    Check(
        "the gain is much larger for 0.1 second",
        lambda result: ratios(result, "GCA", "LCA")[1] > 2 * ratios(result, "GCA", "LCA")[0],
    ),
    Check(
        "LCA has the shorter service time for 0.1 second",
        lambda result: values(result, "LCA", TIME)[1] < values(result, "GCA", TIME)[1],
        timed=True,
    ),
)
FIGURE_14_CHECKS = (
    Check(
        "with small variation of rates NLW makes fewer comparisons",
        lambda result: values(result, NLW)[0] < values(result, "LCA")[0],
    ),
    Check(
        "with large variation LCA makes fewer comparisons",
        lambda result: values(result, "LCA")[1] < values(result, NLW)[1],
    ),
)


# ---- the worked examples --------------------------------------------------------------------------------------------


def run_example(trial: ExperimentTrial) -> Result:
    """Run all algorithms over a figure's rows, and count what they find of it."""
    wanted = trial.settings
    keys = wanted.get("keys") or [[1] * len(times) for times in wanted["times"]]
    session = session_of(
        {
            name: pa.table({"k": key, "ts": pa.array([t * 1_000_000 for t in times], pa.timestamp("us"))})
            for name, times, key in zip("abcde", wanted["times"], keys, strict=True)
        }
    )
    select = ", ".join(f"EPOCH_US({x}.ts) AS {x}" for x in "abcde")
    lines = (RIPPLE, XJOIN, NLW, HW, MW)
    counted: dict[str, list[float]] = {}
    for line in lines:
        found = session.sql(join_sql("abcde", "k", "WINDOW = 10 SECONDS", OPTIONS[line], select)).to_arrow().to_pylist()
        times = [tuple(row[x] // 1_000_000 for x in "abcde") for row in found]
        named = sum(times.count(tuple(one)) for one in wanted["named"])
        spread = sum(max(one) - min(one) > 10 for one in times)
        counted[line] = [named, len(times), spread]
    x = ["of the figure", "all", "out of the window"]
    panel = Panel("Combinations found", "", "combinations", x, counted, bars=True)
    return Result([panel], {"named": len(wanted["named"]), "all": wanted["of"] or counted[NLW][1]})


EXAMPLE_CHECKS = (
    Check(
        "every algorithm finds the figure's combinations, each once",
        lambda result: all(line[0] == result.numbers["named"] for line in result.panels[0].lines.values()),
    ),
    Check(
        "and all of them the same number in all, none out of the window",
        lambda result: all(
            line[1] == result.numbers["all"] and line[2] == 0 for line in result.panels[0].lines.values()
        ),
    ),
)


# ---- Figure 9(b) with real flights ----------------------------------------------------------------------------------

AIRPORTS = ("ewr", "jfk", "lga")
FLIGHTS: Settings = {"small": {"rows": 20_000, "window": "1 HOUR"}, "paper": {"rows": 0, "window": "1 HOUR"}}


def run_flights(trial: ExperimentTrial) -> Result:
    """Flights to one place from two airports, then from three, within the window."""
    session = session_of({name: real_flights(trial.settings["rows"])[name] for name in AIRPORTS})

    def sql(ways: int, options: str) -> str:
        return join_sql(AIRPORTS[:ways], "dest", f"WINDOW = {trial.settings['window']}", options)

    served = compare(trial, (NLW, MW, HW), {2: session, 3: session}, sql)
    return Result(panels_of(served, "streams"), speeds(served))


FLIGHTS_CHECKS = (
    Check("HW makes the fewest comparisons with 2 and 3 streams", hashed_best),
    Check(
        "NLW and MW come closer with the third stream",
        lambda result: ratios(result, NLW, MW)[-1] < ratios(result, NLW, MW)[0],
    ),
)
WITH_FLIGHTS = Experiment(
    "H02-E9b-flights",
    PAPER,
    "Figure 9(b), with real flights",
    "With comparable rates NLW and MW come closer as a stream is added; HW is best.",
    FLIGHTS,
    run_flights,
    FLIGHTS_CHECKS,
)


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "H02-E7",
        PAPER,
        "Figure 7",
        "On sales with a window of an hour NLW beats the ripple join, MW is about ten times better still, and neither "
        "builds up over time.",
        FIGURE_7,
        lambda trial: run_sales(trial, (RIPPLE, NLW, MW)),
        FIGURE_7_CHECKS,
    ),
    Experiment(
        "H02-E8",
        PAPER,
        "Figure 8",
        "HW beats XJoin in all cases; XJoin builds up between its purges.",
        FIGURE_7,
        lambda trial: run_sales(trial, (XJOIN, HW)),
        FIGURE_8_CHECKS,
    ),
    Experiment(
        "H02-E9a",
        PAPER,
        "Figure 9(a)",
        "With rates between 1000 and 100 a second MW is more than ten times better than NLW for 2 to 6 streams, and HW "
        "is best.",
        FIGURE_9A,
        run_variable_rates,
        FIGURE_9A_CHECKS,
    ),
    Experiment(
        "H02-E9b",
        PAPER,
        "Figure 9(b)",
        "With comparable rates NLW and MW converge as streams are added; HW is best.",
        FIGURE_9B,
        run_comparable_rates,
        FIGURE_9B_CHECKS,
    ),
    Experiment(
        "H02-E9c",
        PAPER,
        "Figure 9(c)",
        "If one of four streams is now slow and now fast MW improves greatly, NLW and HW hardly.",
        FIGURE_9C,
        run_slow_and_fast,
        FIGURE_9C_CHECKS,
    ),
    Experiment(
        "H02-E13",
        PAPER,
        "Figure 13",
        "With one wide window among narrow ones LCA beats GCA, even if they differ little.",
        FIGURE_13,
        run_conservative,
        FIGURE_13_CHECKS,
    ),
    Experiment(
        "H02-E14",
        PAPER,
        "Figure 14",
        "For a path through four streams NLW is better if their rates are alike, LCA if they differ much.",
        FIGURE_14,
        run_path,
        FIGURE_14_CHECKS,
    ),
    *(
        Experiment(
            f"H02-W{number}",
            PAPER,
            figure,
            "The worked example of the paper: what is found of it, and nothing else.",
            {"small": settings},
            run_example,
            EXAMPLE_CHECKS,
        )
        for number, (figure, settings) in enumerate(EXAMPLES.items(), 1)
    ),
    *((WITH_FLIGHTS,) if have_flights() else ()),
)
