"""Running H02's algorithms side by side: what each arrival costs, counted once and timed several times.

The paper plots the service time of an arriving row, averaged over 1000 arrivals, and says that it follows the number
of comparisons. Comparisons are the same on every machine: those of times, of join attributes, and those that ask
whether a row can go, one each. Times are of the processor, medians of several runs that took turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.lab.experiment import ExperimentTrial, Panel, Result, Scale
from watersmeet.lab.papers.running import Served, serve, session_of
from watersmeet.lab.papers.spread import spread_panel
from watersmeet.lab.workloads.poisson import poisson
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
# How the paper's prototype reads a backlog: streams in turn, whatever their times. Queries ask for NLW's way by turns =
# 'round_robin'; MW's waits for a row of each stream, so none can.
IN_TURNS: dict[str, Callable[[JoinDescription], Algorithm]] = {
    NLW: lambda description: PipelineJoin(description, turns="alternate"),
    MW: lambda description: MergeJoin(description, clocked=False),
}
COMPARISONS, TOUCHED, TIME = range(3)  # panels
COUNTED = "by comparisons; the paper plots service times"
LOOKED_AT = "by rows looked at; the paper plots service times"
ON_WHICH_TIME_HANGS = "by comparisons along the run, on which the paper says the service time depends"
NUMBERS = {"keys": 1000, "window": "1 SECOND"}
SECONDS: dict[Scale, float] = {"small": 8, "paper": 60, "10x": 600, "100x": 6000}
REPEATS: dict[Scale, int] = {"small": 3, "paper": 5, "10x": 1, "100x": 1}
GENERATED = (
    "generated (lab:poisson): integers drawn evenly from a set of keys, exponential gaps between the rows of a stream"
)
RECONSTRUCTED = {
    "keys": "the paper says a small set of integers; 1000 make about one partner in a window at 1000 rows a second",
    "window": "not said for the synthetic streams; 1 second is the longest of its section 5.3",
    "seconds": "the length of a run is not said; a minute of event time",
}


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


@dataclass(frozen=True)
class Compared:
    """What algorithms did, by case and line, and how many seconds an arrival took in each of several runs."""

    served: dict[tuple[Any, str], Served]
    seconds: dict[tuple[Any, str], list[float]]

    @property
    def cases(self) -> list[Any]:
        return list(dict.fromkeys(case for case, _ in self.served))

    @property
    def lines(self) -> list[str]:
        return list(dict.fromkeys(line for _, line in self.served))

    @property
    def speeds(self) -> dict[str, float]:
        """The fastest run of each, as rows a second."""
        return {f"rows/s, {line}, {case}": 1 / min(of_one) for (case, line), of_one in self.seconds.items()}

    def panels(self, x_label: str, told: str = "", *, y_log: bool = True) -> list[Panel]:
        """Comparisons, rows looked at and time for each arrival, over the cases; `told` follows the titles."""
        cases, lines = self.cases, self.lines
        bars = isinstance(cases[0], str)

        def counted(title: str, y_label: str, of: Callable[[Served], float]) -> Panel:
            drawn = {line: [of(self.served[case, line]) for case in cases] for line in lines}
            return Panel(title + told, x_label, y_label, cases, drawn, y_log=y_log, bars=bars)

        timed = {line: [[one * 1e6 for one in self.seconds[case, line]] for case in cases] for line in lines}
        return [
            counted("Comparisons", "comparisons per arrival", lambda one: one.mean_comparisons),
            counted("Rows looked at", "rows per arrival", lambda one: one.mean_touched),
            spread_panel("Service time" + told, x_label, "µs per arrival", cases, timed, y_log=y_log, bars=bars),
        ]


def compare(
    trial: ExperimentTrial,
    lines: Sequence[str],
    cases: Mapping[Any, Session],
    sql: Callable[[Any, str], str],
    repeats: int | None = None,
) -> Compared:
    """Run every algorithm on every case, in turn; `sql` gives the query of a case with the options of a line."""
    warm_up(lines)
    repeats = repeats or trial.settings["repeats"]
    found = Compared({}, {})
    done, of = 0, len(cases) * len(lines) * repeats
    for _ in range(repeats):
        for case, session in cases.items():
            for line in lines:
                trial.tell(done, of)
                one = serve(session, sql(case, OPTIONS[line]))
                found.served.setdefault((case, line), one)
                found.seconds.setdefault((case, line), []).append(one.mean_seconds)
                done += 1
    trial.tell(of, of)
    return found


def in_turns(session: Session, sql: str) -> tuple[float, float]:
    """How many times the comparisons, and the time, of MW it takes NLW, if both read streams in turn from a backlog."""
    nlw, mw = (serve(session, sql, algorithm=IN_TURNS[line]) for line in (NLW, MW))
    return nlw.mean_comparisons / mw.mean_comparisons, nlw.mean_seconds / mw.mean_seconds


def curve_of(served: Mapping[tuple[Any, str], Served], case: Any, title: str) -> Panel:
    """Comparisons of one case as time goes on, a point for each 1000 arrivals."""
    lines = {line: one for (which, line), one in served.items() if which == case}
    x = next(iter(lines.values())).arrivals.tolist()
    drawn = {line: one.comparisons.tolist() for line, one in lines.items()}
    return Panel(title, "tuples processed", "comparisons per arrival", x, drawn)


def values(result: Result, line: str, panel: int = COMPARISONS) -> list[float]:
    return [float(value) for value in result.line(line, panel) if value is not None]


def below(result: Result, less: str, more: str, panel: int = COMPARISONS) -> bool:
    """Whether one line lies below another everywhere."""
    return all(x < y for x, y in zip(values(result, less, panel), values(result, more, panel), strict=True))


def ratios(result: Result, top: str, bottom: str, panel: int = COMPARISONS) -> list[float]:
    return [x / y for x, y in zip(values(result, top, panel), values(result, bottom, panel), strict=True)]


def hashed_best(result: Result, panel: int = COMPARISONS) -> bool:
    return below(result, HW, MW, panel) and below(result, HW, NLW, panel)


def fastest(result: Result, one: str, others: Iterable[str], panel: int = TIME) -> bool:
    """Whether one has the shortest service time everywhere, give or take a tenth where they are as good as equal."""
    return all(
        mine <= 1.1 * other
        for name in others
        for mine, other in zip(values(result, one, panel), values(result, name, panel), strict=True)
    )


def ends(factors: Sequence[float]) -> str:
    return f"{min(factors):.1f} to {max(factors):.1f}"
