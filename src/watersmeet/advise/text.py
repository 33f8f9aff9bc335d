"""Advice for people: tables of recall by memory, and in one line what to do."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

from watersmeet.advise.report import Advice
from watersmeet.model.wording import aligned, in_bytes, short

WIDTH = 80
GOAL = 0.9


def advice_text(advice: Advice) -> str:
    return "\n".join(_lines(advice)) + "\n"


def _lines(advice: Advice) -> Iterator[str]:
    size = in_bytes(advice.rows_needed * advice.row_bytes)
    yield _folded(
        f"over {advice.sample_rows:,} rows, {short(advice.event_seconds)} s of event time, the windows need up to "
        f"{advice.rows_needed:,} rows, about {size}; the exact answer has {advice.exact_results:,} results"
    )
    for allocation in advice.allocations:
        yield f"recall with allocation = '{allocation}'"
        yield from (f"  {line}" for line in aligned(_table(advice, allocation), left=0))
    yield from (_folded(f"note: {note}") for note in advice.notes)
    yield f"worked out in {short(advice.seconds)} s"
    yield _folded(recommendation(advice))


def _table(advice: Advice, allocation: str) -> list[list[str]]:
    ways = [*advice.policies, *(["optimum"] if any(c.allocation == allocation for c in advice.ceilings) else [])]
    rows = [["rows", "bytes", "of need", *ways]]
    for size in advice.sizes:
        recalls = [_percent(advice.recall(way, allocation, size)) for way in ways]
        asked = "*" if size == advice.bound else ""
        share = f"{100 * size / advice.rows_needed:.0f}%"
        rows.append([f"{asked}{size:,}", in_bytes(size * advice.row_bytes), share, *recalls])
    return rows


def recommendation(advice: Advice) -> str:
    """What to write, in a line.

    >>> from watersmeet.advise.report import Trial
    >>> trials = (Trial("prob", "fixed", 100, 80, 0.8), Trial("prob", "fixed", 200, 100, 1.0))
    >>> recommendation(Advice(1000, 60.0, 1.0, 100, 200, 40.0, trials))
    "90% recall needs about 150 rows (6 kB) with shed = 'prob', allocation = 'fixed'"
    """
    if not advice.exact_results:
        return "the sample has no results, so nothing can be told; take a larger one"
    need = advice.needs(GOAL)
    largest = max(advice.sizes, default=0)
    if need is None and largest < advice.rows_needed:
        told = f"{GOAL:.0%} recall needs more than {largest:,} rows, the most that there was time to try"
    elif need is None:
        told = f"{GOAL:.0%} recall needs all {advice.rows_needed:,} rows and more"
    else:
        told = (
            f"{GOAL:.0%} recall needs about {short(need.rows)} rows ({in_bytes(need.rows * advice.row_bytes)}) "
            f"with shed = '{need.policy}', allocation = '{need.allocation}'"
        )
    return told + _of_bound(advice)


def _of_bound(advice: Advice) -> str:
    """What the memory that the query asks for is good for."""
    if advice.bound is None:
        return ""
    if advice.bound >= advice.rows_needed:
        return f"; the query's bound, {advice.bound:,} rows, holds all that the windows need"
    found = [trial for trial in advice.trials if trial.rows == advice.bound]
    best = max(found, key=lambda trial: trial.recall, default=None)
    if best is None:
        return ""
    return (
        f"; * the query's bound, {advice.bound:,} rows, gives {best.recall:.1%} at best, "
        f"with shed = '{best.policy}', allocation = '{best.allocation}'"
    )


def _percent(recall: float | None) -> str:
    return "-" if recall is None else f"{100 * recall:.1f}%"


def _folded(text: str) -> str:
    return fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
