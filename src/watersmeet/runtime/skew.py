"""How evenly buckets or threads are at work, by which keys if not, and what would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from statistics import mean
from typing import Literal

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.model.wording import listed
from watersmeet.plan.spread import Spread
from watersmeet.runtime.metrics import Metrics

UNEVEN = 1.5  # times the mean
LEAST_WORK = 10_000  # rows and results together; of fewer nobody need know
MOST_KEYS = 8  # that are told
ByKey = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Places:
    """Where the rows of a query are placed by key. `streams`: the name of the stream of each alias. `take`: raises an
    OptionError where such keys cannot be spread. `when`: how an option is said of a query that runs."""

    word: Literal["bucket", "thread"]
    streams: Mapping[str, str]
    take: Callable[[Spread], object]
    when: str


def fullest(metrics: Metrics) -> float | None:
    """The work of the place that has the most, by the mean; None where it is little, or even enough.

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


def skew_text(metrics: Metrics, places: Callable[[], Places]) -> str | None:
    """Of a whole run; nothing where its places are even enough, and then nobody asks what they are."""
    times, many = fullest(metrics), len(metrics.work_by_bucket)
    if times is None:
        return None
    found = places()
    text = f"fullest {found.word}: {times:.1f} times the mean of {many}"
    shares = {
        key: of
        for key, of in shares_by_key(found.streams, metrics).items()
        if max(of.values()) >= 1 / (2 * many)  # of what a place should have
    }
    if not shares:
        return text
    most = sorted(shares, key=lambda key: prod(shares[key].values()), reverse=True)[:MOST_KEYS]
    told = "; ".join(_told(key, shares[key], metrics) for key in most)
    return f"{text}; keys with many rows: {told}\n  {_what_would_do(found, most, shares)}"


def shares_by_key(streams: Mapping[str, str], metrics: Metrics) -> ByKey:
    """By key and alias, which part of the rows of the alias have the key."""
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


def _what_would_do(places: Places, keys: Sequence[str], shares: ByKey) -> str:
    """The option, or why there is none."""
    said, why = proposed(places, keys, shares)
    if said is not None:
        return f"hint: {places.when} with OPTIONS (spread = {in_quotes(said)})"
    return f"they stay in one {places.word}: {why or 'of this query no rows can be dealt out'}"


def proposed(places: Places, keys: Sequence[str], shares: ByKey) -> tuple[str | None, str]:
    """Keys spread as the query takes it: of the stream with the most rows of them whose rows can be dealt out; or why
    those of none can."""
    rows: dict[str, float] = {}
    for key in keys:
        for alias, share in shares[key].items():
            rows[alias] = rows.get(alias, 0.0) + share
    why = ""
    for alias in sorted(rows, key=lambda alias: rows[alias], reverse=True):
        said = f"{alias}: {', '.join(keys)}"
        try:
            places.take(Spread.parse(said))
        except OptionError as error:
            why = error.message.partition(" cannot be done here: ")[2]
            continue
        return said, ""
    return None, why


def in_quotes(said: str) -> str:
    """As it stands in SQL.

    >>> in_quotes("a: O'Hara")
    "'a: O''Hara'"
    """
    return "'" + said.replace("'", "''") + "'"
