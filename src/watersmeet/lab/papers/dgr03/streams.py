"""The pairs of streams that DGR03's experiments join: one row of each per tick, drawn several times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.lab.experiment import ExperimentTrial, Scale
from watersmeet.lab.workloads.zipf import zipf
from watersmeet.papers.shedding.arrivals import Arrivals, one_per_tick

Settings = Mapping[Scale, Mapping[str, Any]]

SHARES_OF_W = (0.1, 0.25, 0.5, 1.0, 1.5)  # the memories of all figures over M
DATA = (
    "generated: keys drawn independently by Zipf's law, one row of each stream per tick (`lab:zipf`). Each stream "
    "ranks the keys by a permutation of its own unless it says correlated; every draw is another pair of streams"
)
RECONSTRUCTED = {
    "draws": "the paper does not say how often it drew its streams; the ranking of keys matters much, so lines are "
    "means over draws",
    "counted": "results found after a warm-up of 2w, as in the paper",
}


def scaled(window: int, draws: int, largest: Scale = "10x", **others: Any) -> Settings:
    """N = 5600 rows a stream is the paper's size. The small scale draws them once: fewer rows would tell the model of
    PROB more, as its table of frequencies is made from the same rows, and teach the engine less."""
    common = {"window": window, "domain": 50, "skew": 1.0, "shares": SHARES_OF_W} | others
    sizes: dict[Scale, dict[str, Any]] = {
        "small": {"ticks": 5600, "draws": 1},
        "paper": {"ticks": 5600, "draws": draws},
        "10x": {"ticks": 56_000, "draws": 1},
        # The engine takes a few rows at a time, and few they are in small memories: only the larger ones at this size.
        "100x": {"ticks": 560_000, "draws": 1, "shares": (1.0, 1.5)},
    }
    wanted = list(sizes)[: list(sizes).index(largest) + 1]
    return {scale: common | sizes[scale] for scale in wanted}


@dataclass(frozen=True, eq=False)
class Pair:
    """Two streams of keys, one row of each per tick, and the window of their join. The first 2w ticks warm it up."""

    r: pa.Array
    s: pa.Array
    window: int

    @property
    def warm_up(self) -> int:
        return 2 * self.window

    @cached_property
    def arrivals(self) -> Arrivals:
        return one_per_tick(self.r, self.s, self.window, counted_from=self.warm_up)

    @property
    def exact(self) -> int:
        return self.arrivals.exact_results


def memories_of(settings: Mapping[str, Any]) -> list[int]:
    return [round(share * settings["window"]) for share in settings.get("shares", SHARES_OF_W)]


def draws(trial: ExperimentTrial, **changed: Any) -> Iterator[Pair]:
    """The pairs of streams of a trial, one for each draw."""
    given = {**trial.settings, **changed}
    for draw in range(given["draws"]):
        streams = zipf(
            2 * given["ticks"],
            seed=1000 * trial.seed + draw,  # apart for all draws of all seeds
            domain=given["domain"],
            skew=given["skew"],
            correlated=given.get("correlated", False),
        )
        yield Pair(keys(streams["s1"]), keys(streams["s2"]), given["window"])


def keys(rows: pa.Table, column: str = "key") -> pa.Array:
    return rows[column].combine_chunks()
