"""H04: Hammad, Ghanem, Aref, Elmagarmid and Mokbel, Efficient Pipelined Execution of Sliding Window Queries (2004).

The paper plots how long after an input, or after a row has left its window, the output appears. Most of that is
waiting: for a row that makes an operator notice. It is measured here in event time, exactly and the same everywhere:
rows are replayed one by one, and the wait of a change is from its instant to the row at which it is told. Time goes on
only when a row comes in, also for TPA and NTA, as in the paper's prototype. The rest is processing: processor time,
added to it for the response time, and compared within one run only.

ITA, TPA and NTA are the paper's operators as printed (`papers/pipelines/`): each finds by itself what has expired, and
time is what its own scans have read. "TPA, ours" and "NTA, ours" are the engine's own ways beside them.

The queries of the paper's Figure 9 are not in its text (AMB-34). These have the parts that the text names: Q1 selects
and aggregates, Q2 and Q3 join one of the two tables, Q3 then groups, Q4 joins two selections of streams, Q5 has two
windows and a MAX. The COUNT beside the MAX makes every change of its window an output, as the paper's operator does.
A selectivity of a join of streams is the mean number of partners of a row; items are as many as it takes.
Windows are half-open (AMB-22). Their sizes are not said, except in Figure 12: 10 and 5 seconds are used, and a minute
and half a minute where throughput is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from watersmeet.lab.experiment import ExperimentTrial, Panel, Result, Scale
from watersmeet.lab.papers.running import Replayed, replay_together, session_of, warm_up
from watersmeet.lab.workloads.retail import favourites, sales
from watersmeet.session import Session

Settings = dict[Scale, dict[str, Any]]

PAPER = "H04"
ITA, TPA, NTA = "ITA", "TPA", "NTA"
OWN_TPA, OWN_NTA = "TPA, ours", "NTA, ours"
PUBLISHED = {ITA: "ita_scan", TPA: "tpa_scan", NTA: "nta_scan"}
PIPELINES = {**PUBLISHED, OWN_TPA: "tpa", OWN_NTA: "nta"}
QUERIES = {
    "Q1": "SELECT SUM(price) AS total FROM sales [RANGE {w} SECONDS] WHERE price >= {price}",
    "Q2": "SELECT DISTINCT s.item_id FROM sales [RANGE {w} SECONDS] AS s, favorite_items AS f "
    "WHERE s.item_id = f.item_id",
    "Q3": "SELECT s.store_id, SUM(s.quantity) AS sold FROM sales [RANGE {w} SECONDS] AS s, favorite_stores AS f "
    "WHERE s.store_id = f.store_id GROUP BY s.store_id",
    "Q4": "SELECT COUNT(*) AS n FROM sales [RANGE {w} SECONDS] AS s, returns [RANGE {w} SECONDS] AS r "
    "WHERE s.item_id = r.item_id AND s.price >= {price} AND r.price >= {price}",
    "Q5": "SELECT MAX(s.price) AS highest, COUNT(*) AS n "
    "FROM sales [RANGE {w} SECONDS] AS s, returns [RANGE {half} SECONDS] AS r WHERE s.item_id = r.item_id",
}
SINGLE_WINDOW = ("Q1", "Q2", "Q3", "Q4")
HIGHEST_PRICE = 10_000  # prices are even below it

WORKLOAD = {
    "rate": 20, "window": 10, "selection": 0.25, "join_q4": 0.6, "join_q5": 0.1, "favourites": 0.1,
}  # fmt: skip
# By scale: how long streams are, and for a quick look shorter windows.
SIZES: dict[Scale, dict[str, Any]] = {
    "small": {"seconds": 14, "window": 4},
    "paper": {"seconds": 300},
    "10x": {"seconds": 3000},
}


# ---- queries and runs -----------------------------------------------------------------------------------------------


def asked(query: str, line: str, settings: Mapping[str, Any]) -> str:
    """The text of a query under one of the three approaches."""
    price = round((1 - settings["selection"]) * HIGHEST_PRICE)
    text = QUERIES[query].format(w=settings["window"], half=settings["window"] / 2, price=price)
    return f"{text} OPTIONS (boundary = 'half_open', pipeline = '{PIPELINES[line]}')"


def shop(query: str, settings: Mapping[str, Any], seed: int) -> Session:
    """Sales, and for joins of streams returns, with as many items as the selectivity of the join takes."""
    rate, window = settings["rate"], settings["window"]
    # A row has as many partners as the other window has rows, over the number of items.
    items = {
        "Q4": rate * settings["selection"] * window / settings["join_q4"],
        "Q5": rate * 0.75 * window / settings["join_q5"],  # the mean of both windows
    }
    number = max(1, round(items.get(query, 1000)))
    streams = sales(rate, seconds=settings["seconds"], items=number, seed=seed)
    if "returns" in QUERIES[query]:
        # The same seed makes other rows under another name (see retail.sales).
        streams |= sales(rate, seconds=settings["seconds"], items=number, seed=seed, name="returns")
    return session_of(streams, favourites(settings["favourites"], items=1000, seed=seed))


def replays(
    trial: ExperimentTrial, cases: Mapping[Any, tuple[Session, str, Mapping[str, Any]]]
) -> dict[tuple[Any, str], Replayed]:
    """Replay the query of each case, with its settings, under all approaches."""
    for session, query, settings in cases.values():
        for line in PIPELINES:
            warm_up(session, asked(query, line, settings), rows=40)
    found: dict[tuple[Any, str], Replayed] = {}
    for case, (session, query, settings) in cases.items():
        trial.tell(len(found), len(PIPELINES) * len(cases))
        queries = {line: asked(query, line, settings) for line in PIPELINES}
        found |= {(case, line): one for line, one in replay_together(session, queries).items()}
    trial.tell(len(found), len(found))
    return found


def panels_of(found: Mapping[tuple[Any, str], Replayed], x_label: str) -> list[Panel]:
    """Average and longest response time, and the parts of the average: waiting and processing."""
    cases = list(dict.fromkeys(case for case, _ in found))

    def panel(title: str, y_label: str, values: Mapping[tuple[Any, str], float], y_log: bool = False) -> Panel:
        drawn = {line: [values[case, line] for case in cases] for line in PIPELINES}
        return Panel(title, x_label, y_label, cases, drawn, y_log=y_log, bars=isinstance(cases[0], str))

    return [
        panel("Average output response time", "seconds", {key: response_s(one) for key, one in found.items()}),
        panel("Maximum output response time", "seconds", {key: longest_s(one) for key, one in found.items()}),
        panel("of which processing", "µs per arrival", {key: one.processing_us for key, one in found.items()}),
        panel("of which waiting, on average", "event seconds", {key: one.mean_wait for key, one in found.items()}),
        panel("and at most", "event seconds", {key: one.longest_wait for key, one in found.items()}),
    ]


AVERAGE, MAXIMUM, PROCESSING, WAITING, LONGEST = range(5)
BLOCKS = 5  # parts of a run, each with its own mean


def response_s(one: Replayed) -> float:
    """Waiting and processing together. Processing is without the slowest tenth, as now and then memory is tidied up."""
    return one.mean_wait + one.processing_us / 1e6


def longest_s(one: Replayed) -> float:
    return one.longest_wait + one.processing_us / 1e6


def numbers_of(found: Mapping[tuple[Any, str], Replayed]) -> dict[str, float]:
    """How many changes were told, and how far the processing of parts of a run differs."""
    numbers: dict[str, float] = {}
    for (case, line), one in found.items():
        parts = [float(np.median(part)) * 1e6 for part in np.array_split(one.seconds, BLOCKS)]
        numbers[f"outputs, {line}, {case}"] = float(one.waits_us.size)
        numbers[f"time, µs per arrival at the median of the fastest fifth, {line}, {case}"] = min(parts)
        numbers[f"time, µs per arrival at the median of the slowest fifth, {line}, {case}"] = max(parts)
    return numbers


def values(result: Result, line: str, panel: int = AVERAGE) -> list[float]:
    return [float(value) for value in result.line(line, panel) if value is not None]


def factors(result: Result, top: str, bottom: str, panel: int = AVERAGE) -> list[float]:
    return [x / y for x, y in zip(values(result, top, panel), values(result, bottom, panel), strict=True)]


def responds_last(result: Result) -> bool:
    """Whether ITA has the longest response times everywhere, in the mean and at most."""
    panels = (AVERAGE, MAXIMUM)
    return all(min(factors(result, ITA, other, panel)) > 1 for other in (TPA, NTA) for panel in panels)


def sooner(result: Result, one: str, other: str, places: Sequence[int] | slice = slice(None)) -> bool:
    """Whether response times are shorter in the mean: they differ by processing where the waits are the same."""
    found = np.array(factors(result, one, other))
    return bool((found[places] < 1).all())


def gap(result: Result, place: int) -> float:
    """By how much later ITA responds than TPA, in the mean."""
    return values(result, ITA)[place] - values(result, TPA)[place]
