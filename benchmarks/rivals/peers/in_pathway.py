"""Pathway over tables that are there from the start, its quickest way; answers are told by `subscribe`."""

from __future__ import annotations

import os

os.environ.setdefault("PATHWAY_DISABLE_PROGRESS", "1")

import pathway as pw
import pyarrow.parquet as pq

from benchmarks.rivals.peers.protocol import Asked, Tally, answer


def table(asked: Asked, stream: str) -> pw.Table:
    """Times as milliseconds; `id` is a word of Pathway's own."""
    rows = pq.read_table(asked.file(stream)).to_pandas()
    rows["number"] = rows.pop("id")
    rows["t"] = rows.pop("ts").astype("int64") // 1_000
    return pw.debug.table_from_pandas(rows)


def joined(asked: Asked) -> pw.Table:
    """A chain: each stream within the window of the first, and those between by a filter."""
    first, *others = asked.streams
    met = table(asked, first).select(pw.this.k, pw.this.t, ida=pw.this.number, ta=pw.this.t)
    names = ["a"]
    for name in others:
        right = table(asked, name)
        near = pw.temporal.interval(-asked.window_ms, asked.window_ms)
        kept = {f"{what}{one}": getattr(met, f"{what}{one}") for one in names for what in ("id", "t")}
        met = met.interval_join(right, met.t, right.t, near, met.k == right.k).select(
            k=met.k, t=met.t, **kept, **{f"id{name}": right.number, f"t{name}": right.t}
        )
        for one in names[1:]:
            apart = getattr(met, f"t{one}") - getattr(met, f"t{name}")
            met = met.filter((apart <= asked.window_ms) & (apart >= -asked.window_ms))
        names.append(name)
    return met.select(**{f"c{number}": getattr(met, f"id{name}") for number, name in enumerate(names)})


def windowed(asked: Asked) -> pw.Table:
    rows = table(asked, "a")
    hops = pw.temporal.sliding(hop=asked.slide_ms, duration=asked.window_ms)
    end = pw.this._pw_window_end // 1_000
    if asked.query == "top 10":
        items = rows.select(rows.t, item=pw.make_tuple(-rows.v, rows.number))
        ten = items.windowby(items.t, window=hops).reduce(c0=end, items=pw.reducers.sorted_tuple(pw.this.item))
        ten = ten.select(
            ten.c0, items=pw.apply_with_type(lambda found: found[:10], list[tuple[int, int]], ten.items)
        ).flatten(pw.this.items)
        return ten.select(ten.c0, c1=pw.this.items[1], c2=-pw.this.items[0])
    windows = rows.windowby(rows.t, window=hops, instance=rows.k)
    if asked.query == "DISTINCT":
        return windows.reduce(c0=end, c1=pw.this._pw_instance)
    return windows.reduce(c0=end, c1=pw.this._pw_instance, c2=pw.reducers.count(), c3=pw.reducers.sum(pw.this.v))


def run(asked: Asked, tally: Tally) -> None:
    pw.internals.parse_graph.G.clear()
    found = joined(asked) if asked.joins else windowed(asked)
    names = found.column_names()

    def told(key, row, time, is_addition):
        assert is_addition
        tally.row(*(row[name] for name in names))

    pw.io.subscribe(found, told)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    answer(run)
