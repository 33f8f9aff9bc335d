"""The numbers of EXPLAIN: what each stream brings, what each new row costs, what else was considered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from watersmeet.model.wording import Cells, aligned, in_bytes, short, time_a_second
from watersmeet.physical.estimate import ConditionEstimate, JoinEstimate, MemoryEstimate, RouteEstimate

# What the numbers of the table leave of 80 columns.
WAY_WIDTH = 34


def cost_tables(estimate: JoinEstimate) -> Iterator[tuple[str, list[str]]]:
    """Titles, each with the lines of a table."""
    yield "expected of the inputs", aligned(_inputs(estimate), left=1)
    yield "expected of each new row", aligned(_routes(estimate.routes), left=2)
    if estimate.conditions:
        yield "expected of the conditions, for one combination", aligned(_conditions(estimate.conditions), left=1)
    if estimate.alternatives:
        yield "considered", aligned(_alternatives(estimate), left=1)


def _inputs(estimate: JoinEstimate) -> Cells:
    rows = [["input", "rows/s", "rows kept", "bytes", "known"]]
    for alias, one in estimate.inputs.items():
        rows.append([alias, short(one.rate) if one.rate else "-", short(one.rows), in_bytes(one.bytes), one.known])
    return rows


def _routes(routes: Sequence[RouteEstimate]) -> Cells:
    rows = [["of", "visits", "looks at", "go on", "comparisons/s", "busy/s"]]
    for route in routes:
        for i, step in enumerate(route.steps):
            total = ["", ""] if i else [short(route.comparisons), time_a_second(route.busy_ns)]
            rows.append(["" if i else route.origin, step.stream, short(step.scanned), short(step.carried), *total])
    return rows


def _conditions(conditions: Sequence[ConditionEstimate]) -> Cells:
    rows = [["condition", "takes", "known", "passes", "known"]]
    for one in conditions:
        rows.append(
            [cut(one.condition), time_a_second(one.ns), one.price_known, f"{one.passing:.3g}", one.passing_known]
        )
    return rows


def _alternatives(estimate: JoinEstimate) -> Cells:
    chosen = "chosen" if len(estimate.inputs) < 3 else f"chosen: {estimate.way}"
    rows = [
        ["way", "lookups/s", "comparisons/s", "busy/s", "ratio"],
        [chosen, short(estimate.lookups), short(estimate.comparisons), time_a_second(estimate.busy_ns), "1"],
    ]
    for one in estimate.alternatives:
        ratio = short(one.busy_ns / estimate.busy_ns) if estimate.busy_ns else "-"
        costs = [short(one.lookups), short(one.comparisons), time_a_second(one.busy_ns), ratio]
        rows.append([cut(one.name), *costs])
    return rows


def memory_lines(memory: MemoryEstimate, measured: float | None = None) -> Iterator[str]:
    """What bounded memory holds and what it should cost, beside what it was measured to cost."""
    needed = sum(memory.rows_needed.values())
    yield (
        f"the windows need about {short(needed)} rows ({in_bytes(memory.bytes_needed)}); allowed are "
        f"{short(memory.rows_allowed)} rows ({in_bytes(memory.bytes_allowed)}), {memory.allocation} allocation"
    )
    if memory.part_of is not None:
        yield f"that is its part of the {memory.part_of} that joins of the script share; it grows where it finds more"
    kept = [f"{alias} {short(rows)} of {short(memory.rows_needed[alias])}" for alias, rows in memory.rows_kept.items()]
    yield f"rows kept by {memory.policy}: {', '.join(kept)}"
    if memory.frequencies:
        yield f"how often keys come is read of {' and '.join(memory.frequencies)}, and not counted"
    beside = "" if measured is None else f"; measured {measured:.1%}"
    at_most = "at most " if memory.policy == "arm" else ""  # which keeps rows complete, at the cost of results
    yield f"recall to expect: {at_most}{memory.recall:.1%}{beside}"
    if memory.keys != "measured" and memory.recall < 1:
        yield "that is if all keys come equally often; ask for EXPLAIN ANALYZE, or watersmeet advise, to measure them"


REPEATED = 0.8  # of as many values as rows: less is no unique column; the number of values is a sketch's


def unique_keys(estimates: Sequence[JoinEstimate]) -> Iterator[str]:
    """What was declared unique, and whether it is."""
    for key, (values, rows) in {key: two for one in estimates for key, two in one.unique.items()}.items():
        if values >= REPEATED * rows:
            yield f"{key} is declared unique: a row finds at most one partner by it"
        else:
            yield f"{key} is declared unique, but has about {short(values)} values in {short(rows)} rows: it is not"


def assumptions(estimates: Sequence[JoinEstimate]) -> str | None:
    """What to do about rates that are only assumed, if there are any."""
    inputs = [known for estimate in estimates for known in estimate.inputs.items()]
    assumed = dict.fromkeys(alias for alias, one in inputs if one.known == "assumed" and one.rate)
    if not assumed:
        return None
    return (
        f"nothing is known of {', '.join(assumed)} yet: declare rate = '100/s' and distinct = 'k: 5000' in WITH (…), "
        "or ask for EXPLAIN ANALYZE; a running query measures them itself"
    )


def cut(name: str) -> str:
    return name if len(name) <= WAY_WIDTH else name[: WAY_WIDTH - 1] + "…"
