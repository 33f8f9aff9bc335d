"""Section 7, left open: scalability by grouped evaluation of similar queries, by an index over their predicates, and by
stored views. Each script runs as it is, and with its queries apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from watersmeet.lab.experiment import Check, Experiment, ExperimentTrial, Line, Panel, Result
from watersmeet.lab.papers.go03.streams import GENERATED, PAPER, Settings, Streams, join_sql, numbered
from watersmeet.lab.papers.measuring import Repeated, SpreadLines, repeated
from watersmeet.lab.papers.running import session_of
from watersmeet.lab.papers.scripts import APART, RanScript, run_script
from watersmeet.lab.papers.shapes import value_at
from watersmeet.lab.workloads.go03 import go03, iterations_per_unit

TOGETHER, EACH = "together", "apart"
INDEXED, COMPARED = "an index over what they ask for", "a comparison for each"
SAME, CONDITIONS = "all ask the same", "each with a condition of its own"
MOST_APART = 100  # queries that ask for constants, each of which reads all rows by itself
FIRST = 10  # of the rows that such queries look at this part is not counted: what begins and ends a query is in it
SHARED: Settings = {
    "small": {
        "rate": 10, "window": 200, "values": 2000, "units": 600, "repeats": 2, "queries": (1, 4, 16),
        "ratio": 4, "ratios": (1.5, 16), "asked": (1, 10, 100), "rows asked": 200_000,
    },
    "paper": {
        "rate": 10, "window": 1000, "values": 10_000, "units": 5000, "repeats": 3, "queries": (1, 2, 4, 8, 16),
        "ratio": 4, "ratios": (1.5, 4, 16, 64), "asked": (1, 10, 100, 1000), "rows asked": 1_000_000,
    },
}  # fmt: skip
Key = tuple[str, float, str]  # a panel, an x of it and a line
Script = Sequence[str]


def run_shared(trial: ExperimentTrial) -> Result:
    given = trial.settings
    most = max(given["queries"])
    scripts: dict[Key, Script] = {}
    for count in given["queries"]:
        scripts |= together_and_apart("queries", count, TOGETHER, joins(trial, count, given["ratio"]))
        scripts["views", count, SAME] = [view(trial, 0)] * count
        scripts |= together_and_apart("views", count, CONDITIONS, [view(trial, number) for number in range(count)])
    for ratio in given["ratios"]:
        scripts |= together_and_apart("ratios", ratio, TOGETHER, joins(trial, most, ratio))
    for count in given["asked"]:
        scripts |= together_and_apart("asked", count, INDEXED, constants(count, "attr"))
        scripts["asked", count, COMPARED] = constants(count, "attr + 0")
        if count > MOST_APART:
            del scripts["asked", count, EACH]
    return measured(trial, scripts)


def together_and_apart(part: str, x: float, line: str, queries: Script) -> dict[Key, Script]:
    return {(part, x, line): queries, (part, x, EACH): [f"{one}{APART}" for one in queries]}


def joins(trial: ExperimentTrial, count: int, ratio: float) -> Script:
    """Joins of the same three streams by the same key, in windows from the widest to one `ratio` times narrower."""
    given = trial.settings
    widths = np.geomspace(given["window"], given["window"] / ratio, count)
    streams = [alike(given, 3, float(width)) for width in widths]
    sql = [join_sql(one, "", f"s1.attr, s{2 + number % 2}.ts") for number, one in enumerate(streams)]
    return [one.removesuffix(" OPTIONS ()") for one in sql]


def constants(count: int, asked: str) -> Script:
    return [f"SELECT attr, ts FROM s1 WHERE {asked} = {1 + number}" for number in range(count)]


def view(trial: ExperimentTrial, number: int) -> str:
    given = trial.settings
    window_us = int(given["window"] * iterations_per_unit(alike(given, 3)))
    sold = f"SELECT attr, COUNT(*) AS n FROM s1 [RANGE {window_us} MICROSECONDS] GROUP BY attr"
    return f"SELECT attr, n FROM ({sold}) AS sold WHERE n > {2 + number}"


def measured(trial: ExperimentTrial, scripts: Mapping[Key, Script]) -> Result:
    given = trial.settings
    rows = go03(alike(given, 3), given["units"], trial.seed)
    asked = go03(alike(given, 1), given["rows asked"] // given["rate"], trial.seed)
    first = {name: table.slice(0, table.num_rows // FIRST) for name, table in asked.items()}
    ran: dict[Key, RanScript] = {}

    def once(key: Key) -> float:
        over = asked if key[0] == "asked" else rows
        ran[key] = run_script(session_of(over), scripts[key])
        seconds = ran[key].seconds
        counted = sum(table.num_rows for table in over.values())
        if key[0] == "asked":
            seconds -= run_script(session_of(first), scripts[key]).seconds
            counted -= sum(table.num_rows for table in first.values())
        return float(1e6 * max(seconds, 0.0) / counted)

    took: dict[Key, Repeated] = {}
    places = list(dict.fromkeys(key[:2] for key in scripts))
    for part in dict.fromkeys(key[0] for key in scripts):
        once(next(key for key in scripts if key[0] == part))  # loads kernels
    for done, place in enumerate(places):
        trial.tell(done, len(places))
        took |= repeated({key: partial(once, key) for key in scripts if key[:2] == place}, given["repeats"])
    return Result(
        [
            panel(
                took, "queries", (TOGETHER, EACH), "Joins of the same streams in windows of different sizes", "queries"
            ),
            held(ran, given["queries"]),
            panel(
                took, "ratios", (TOGETHER, EACH), "The same by how far their windows differ", "widest over narrowest"
            ),
            panel(
                took, "asked", (INDEXED, COMPARED, EACH), "Queries that ask for one value", "queries", x_log=True,
                y_log=True,
            ),
            panel(took, "views", (SAME, CONDITIONS, EACH), "Queries over one view of groups", "queries"),
        ],
        {
            "answers that differ": float(sum(differ(ran, key) for key in ran)),
            "results": float(sum(one.results for one in ran.values())),
        },
    )  # fmt: skip


def alike(given: Mapping[str, Any], count: int, window: float | None = None) -> Streams:
    return numbered(*[(given["rate"], given["window"] if window is None else window, given["values"])] * count)


def panel(took: Mapping[Key, Repeated], part: str, lines: Sequence[str], title: str, x_label: str, **how: Any) -> Panel:
    spread, xs = SpreadLines(), list(dict.fromkeys(x for its, x, _ in took if its == part))
    for x in xs:
        spread.add({line: took.get((part, x, line)) for line in lines})
    return spread.panel(title, x_label, "µs per row of input", xs, **how)


def held(ran: Mapping[Key, RanScript], counts: Sequence[int]) -> Panel:
    def line(name: str) -> Line:
        return [ran["queries", count, name].most_bytes / 1e6 for count in counts]

    return Panel(
        "What these joins keep", "queries", "MB of windows", counts, {TOGETHER: line(TOGETHER), EACH: line(EACH)}
    )


def differ(ran: Mapping[Key, RanScript], key: Key) -> int:
    """Queries that give something else than apart."""
    apart = ran.get((*key[:2], EACH))
    if apart is None or key[2] == SAME:
        return 0
    return sum(mine != its for mine, its in zip(ran[key].sums, apart.sums, strict=True))


QUERIES, KEPT, RATIOS, ASKED, VIEWS = range(5)


def most(result: Result, line: str, panel: int) -> float:
    return value_at(result, line, float(result.panels[panel].x[-1]), panel)


def numbers(result: Result, line: str, panel: int) -> list[float]:
    return [float(value) for value in result.line(line, panel) if value is not None]


def gains(result: Result, panel: int) -> list[float]:
    """How many times more queries cost apart than together, at each of x."""
    pairs = zip(numbers(result, EACH, panel), numbers(result, TOGETHER, panel), strict=True)
    return [apart / together for apart, together in pairs]


O3 = Experiment(
    "GO03-O3",
    PAPER,
    "Section 7: grouped evaluation, indexed predicates, stored views",
    "Scalability may be improved by grouped evaluation of similar queries, indexing query predicates and storing "
    "materialized views.",
    SHARED,
    run_shared,
    [
        Check(
            "together each query gives what it gives apart, and that is not nothing",
            lambda result: result.numbers["answers that differ"] == 0 < result.numbers["results"],
        ),
        Check(
            "grouped evaluation: any number of joins keep at most half as much again as the one with the widest window",
            lambda result: max(numbers(result, TOGETHER, KEPT)) <= 1.5 * numbers(result, TOGETHER, KEPT)[0],
        ),
        Check(
            "apart they keep at least half as many times as much as there are joins",
            lambda result: gains(result, KEPT)[-1] >= float(result.panels[KEPT].x[-1]) / 2,
        ),
        Check(
            "the most joins cost less together than apart",
            lambda result: gains(result, QUERIES)[-1] > 1,
            timed=True,
        ),
        Check(
            "at most half as much, however far their windows differ",
            lambda result: min(*gains(result, QUERIES)[-1:], *gains(result, RATIOS)) >= 2,
            degree=True,
            why="reading and keeping are shared; each join that looks for its partners by itself spends most on that",
            timed=True,
        ),
        Check(
            "indexed predicates: the most queries that ask for a value cost at most a third of a comparison for each",
            lambda result: 3 * most(result, INDEXED, ASKED) <= most(result, COMPARED, ASKED),
            timed=True,
        ),
        Check(
            "stored views: any number of queries that ask the same cost at most twice what one does",
            lambda result: most(result, SAME, VIEWS) <= 2 * value_at(result, SAME, 1, VIEWS),
            timed=True,
        ),
        Check(
            "queries with conditions of their own over a view cost at most half of what they cost apart",
            lambda result: 2 * most(result, CONDITIONS, VIEWS) <= most(result, EACH, VIEWS),
            degree=True,
            why="a view is text that is put in its place: each query keeps the groups below it by itself, and only "
            "the reading is shared",
            timed=True,
        ),
    ],
    data=GENERATED,
    reconstructed={"all": "the paper only names these as future work; there is no figure"},
    note="Approximate answers, which the same sentence names, are those of D-E3 to D-E11 and D-O3.",
)
