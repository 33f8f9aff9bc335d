"""10,000 new rows against a window of 1,000,000: probing the kept window, or joining anew with DuckDB or Polars."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.harness import alternate, checksum, figure, report, seconds
from benchmarks.joins import batches, make_join

WINDOW, NEW, KEYS = 1_000_000, 10_000, 1_000_000
SQL = "SELECT s0.k, s0.x, s1.x AS y FROM s0, s1 WHERE s0.k = s1.k WINDOW = 10 SECONDS"
PLAIN = (
    "SELECT n.k, n.x, o.x AS y FROM new n JOIN kept o ON n.k = o.k AND abs(epoch_us(n.ts) - epoch_us(o.ts)) <= 10000000"
)


def main() -> None:
    old = batches(1, WINDOW, KEYS, 1)[0]
    many = batches(40, NEW, KEYS, 2, start_us=WINDOW)
    join = make_join(SQL, 2)
    list(join.push("s1", old))
    turn = {"ours": 0, "duckdb": 0, "polars": 0}
    answers: dict[str, tuple[int, int]] = {}
    kernel: list[float] = []
    db = duckdb.connect()
    db.execute("SET threads = 1")
    old_table = pa.Table.from_batches([old.data])
    db.register("old", old_table)
    db.execute("CREATE TABLE kept AS SELECT * FROM old")
    old_frame = pl.from_arrow(old_table)

    def fresh(name: str) -> int:
        turn[name] = (turn[name] + 1) % len(many)
        return turn[name]

    def ours() -> float:
        rows = many[fresh("ours")]
        before = join.counters.kernel_seconds
        found: list[pa.RecordBatch] = []
        took = seconds(lambda: found.extend(join.push("s0", rows)))
        kernel.append(join.counters.kernel_seconds - before)
        answers["ours"] = checksum(pa.Table.from_batches(found))
        return took

    def by_duckdb() -> float:
        new = pa.Table.from_batches([many[fresh("duckdb")].data])
        found: list[pa.Table] = []
        took = seconds(lambda: found.append(_duckdb(db, new)))
        answers["duckdb"] = checksum(found[0])
        return took

    def by_polars() -> float:
        new = pl.from_arrow(pa.Table.from_batches([many[fresh("polars")].data]))
        found: list[pl.DataFrame] = []
        took = seconds(lambda: found.append(_polars(new, old_frame)))
        answers["polars"] = checksum(found[0].to_arrow())
        return took

    samples = alternate({"ours": ours, "duckdb": by_duckdb, "polars": by_polars}, runs=11)
    assert answers["ours"] == answers["duckdb"] == answers["polars"], answers
    kernel = kernel[1:]
    figures = [figure("small batch, our kernel", "ms", [1e3 * s for s in kernel])]
    figures += [figure(f"small batch, {name}", "ms", [1e3 * s for s in taken]) for name, taken in samples.items()]
    for name in ("duckdb", "polars"):
        ratios = [a / b for a, b in zip(samples[name], kernel, strict=True)]
        figures.append(figure(f"small batch, {name} / our kernel", "x", ratios, ">= 10"))
    report("small_batches", figures)


def _duckdb(db: duckdb.DuckDBPyConnection, new: pa.Table) -> pa.Table:
    db.register("new", new)
    return db.sql(PLAIN).to_arrow_table()


def _polars(new: pl.DataFrame, old: pl.DataFrame) -> pl.DataFrame:
    joined = new.lazy().join(old.lazy(), on="k", suffix="_old")
    near = (pl.col("ts").cast(pl.Int64) - pl.col("ts_old").cast(pl.Int64)).abs() <= 10_000_000
    return joined.filter(near).select("k", "x", pl.col("x_old").alias("y")).collect()


if __name__ == "__main__":
    np.random.default_rng(0)
    main()
