"""Polars asked again at every step: the window's rows are sliced from the whole, by their times, and worked on anew."""

from __future__ import annotations

from functools import reduce

import polars as pl

from benchmarks.rivals.peers.protocol import Asked, Tally, answer


class Rows:
    def __init__(self, asked: Asked, stream: str) -> None:
        frame = pl.read_parquet(asked.file(stream))
        self.frame = frame.with_columns(pl.col("ts").dt.epoch("us").alias("t")).drop("ts")
        self.times = self.frame["t"]

    def between(self, since_us: int, until_us: int) -> pl.DataFrame:
        begin, end = self.times.search_sorted(pl.Series([since_us, until_us]), side="right").to_list()
        return self.frame.slice(begin, end - begin)


def joined(streams: dict[str, Rows], since: int, until: int, width: int) -> pl.DataFrame:
    """Those that the rows since the last step complete."""
    parts = [
        rows.between(since - width, until).lazy().select("k", pl.col("id").alias(name), pl.col("t").alias(f"t{name}"))
        for name, rows in streams.items()
    ]
    times = [pl.col(f"t{name}") for name in streams]
    oldest, newest = pl.min_horizontal(times), pl.max_horizontal(times)
    met = reduce(lambda left, right: left.join(right, on="k"), parts)
    return met.filter((newest - oldest <= width) & (newest > since)).select(*streams).collect()


def windowed(query: str, rows: pl.DataFrame) -> pl.DataFrame:
    if query == "GROUP BY":
        return rows.group_by("k").agg(pl.len().alias("n"), pl.col("v").sum())
    return rows.select("k").unique() if query == "DISTINCT" else rows.top_k(10, by="v").select("id", "v")


def run(asked: Asked, tally: Tally) -> None:
    streams = {name: Rows(asked, name) for name in asked.streams}
    slide, window = asked.slide_ms * 1_000, asked.window_ms * 1_000
    for until in range(slide, int(streams["a"].times[-1]) + slide, slide):
        if asked.joins:
            tally.columns(*joined(streams, until - slide, until, window))
        else:
            found = windowed(asked.query, streams["a"].between(until - window, until))
            tally.columns(pl.repeat(until // 1_000_000, len(found), eager=True), *found)


if __name__ == "__main__":
    answer(run)
