"""How evenly the buckets of a query are at work, by which keys if not, and what would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from statistics import mean

from watersmeet.errors import OptionError
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.model.wording import listed
from watersmeet.plan.query import Plan
from watersmeet.plan.spread import Spread
from watersmeet.runtime.metrics import Metrics

UNEVEN = 1.5  # times the mean
LEAST_WORK = 10_000  # rows and results together; of fewer nobody need know
MOST_KEYS = 8  # that are told
ByKey = dict[str, dict[str, float]]


def fullest(metrics: Metrics) -> float | None:
    """The work of the bucket that has the most, by the mean; None where it is little, or even enough.

    >>> fullest(Metrics(work_by_bucket={"0": 30_000, "2": 10_000}))
    1.5
    >>> fullest(Metrics(work_by_bucket={"0": 30, "2": 10})), fullest(Metrics(work_by_bucket={"0": 30_000}))
    (None, None)
    """
    work = metrics.work_by_bucket.values()
    if sum(work) < LEAST_WORK:
        return None
    times = max(work) / mean(work)
    return times if times >= UNEVEN else None


def skew_text(plan: Plan, metrics: Metrics) -> str | None:
    """Of a whole run; nothing where buckets are even enough."""
    times, buckets = fullest(metrics), len(metrics.work_by_bucket)
    if times is None:
        return None
    text = f"fullest bucket: {times:.1f} times the mean of {buckets}"
    job = job_of(plan, {}, buckets)
    shares = {
        key: found
        for key, found in shares_by_key(job, metrics).items()
        if max(found.values()) >= 1 / (2 * buckets)  # of what a bucket should have
    }
    if not shares:
        return text
    most = sorted(shares, key=lambda key: prod(shares[key].values()), reverse=True)[:MOST_KEYS]
    told = "; ".join(_told(key, shares[key], metrics) for key in most)
    return f"{text}; keys with many rows: {told}\n  {_what_would_do(job, most, shares)}"


def shares_by_key(job: SparkJob, metrics: Metrics) -> ByKey:
    """By key and alias, which part of the rows of the alias have the key."""
    streams = {one.alias: one.relation.name for one in job.streams}
    found: ByKey = {}
    for name, rows in metrics.rows_by_key.items():
        alias, _, key = name.partition(": ")
        came = metrics.rows_by_stream.get(streams.get(alias, ""), 0)
        if came:
            found.setdefault(key, {})[alias] = min(rows / came, 1.0)
    return found


def _told(key: str, shares: Mapping[str, float], metrics: Metrics) -> str:
    """A key with the rows that have it; and how many a row of it meets, if that is known of all others."""
    words = f"{key} ({listed([f'{share:.0%} of {alias}' for alias, share in shares.items()])}"
    windows = metrics.window_rows_by_input
    first, *others = sorted(shares, key=lambda alias: shares[alias], reverse=True)
    if others and {*windows} == {*shares}:
        matches = prod(shares[alias] * windows[alias] for alias in others)
        words += f": a row of {first} meets about {matches:,.0f}"
    return f"{words})"


def _what_would_do(job: SparkJob, keys: list[str], shares: ByKey) -> str:
    """The option, or why there is none."""
    rows: dict[str, float] = {}
    for key in keys:
        for alias, share in shares[key].items():
            rows[alias] = rows.get(alias, 0.0) + share
    why = ""
    for alias in sorted(rows, key=lambda alias: rows[alias], reverse=True):
        said = f"{alias}: {', '.join(keys)}"
        options = job.plan.options.but(spread=Spread.parse(said))
        try:
            _ = replace(job, plan=replace(job.plan, options=options)).partitioning
        except OptionError as error:
            why = error.message.partition(" cannot be done here: ")[2]
            continue
        return (
            f"hint: begin it, or go on from a savepoint, with OPTIONS (spread = '{said.replace(chr(39), chr(39) * 2)}')"
        )
    return f"they stay in one bucket: {why or 'of this query no rows can be dealt out'}"
