"""LaminarDB: sources that are inserted into a thousand rows at a time, in turn, and a stream that is subscribed to.

Rows older than the watermark are dropped even if they came in the same insert, so the watermark stays behind by longer
than an insert reaches. There is no end of a source: a last row, much later and without partners, says that all has
come, and a run is over when nothing more follows; it is timed up to the last answer.
"""

from __future__ import annotations

import json
import sys
import time

import laminardb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.rivals.peers.protocol import Asked, Tally, tell

BATCH, DELAY_S, QUIET_MS = 1_000, 25, 3_000
NO_RANKS = "its streams rank no rows within windows: ROW_NUMBER over HOP gives no answers"


def streams_of(asked: Asked) -> list[str]:
    """The answer is the last; a join of more than two is a chain of streams."""
    near = f"INTERVAL '{asked.window_ms // 1_000}' SECOND"
    if asked.joins:
        made, have = [], "a"
        for number, name in enumerate(asked.streams[1:], 1):
            before = [f"i{i}" for i in range(number)] + [f"t{i}" for i in range(1, number)]
            kept = ", ".join(f"l.{one}" for one in ["k", "ts", *before])
            left = "(SELECT k, ts, id AS i0 FROM a)" if number == 1 else have
            times = ["l.ts", *(f"l.t{i}" for i in range(1, number))]
            close = " AND ".join(["l.k = r.k", *(f"r.ts BETWEEN {t} - {near} AND {t} + {near}" for t in times)])
            have = f"joined{number}"
            columns = f"{kept}, r.id AS i{number}, r.ts AS t{number}"
            made.append(f"CREATE STREAM {have} AS SELECT {columns} FROM {left} l JOIN {name} r ON {close}")
        return made
    hop = f"HOP(ts, INTERVAL '{asked.slide_ms // 1_000}' SECOND, {near})"
    values = ", COUNT(*) AS n, SUM(v) AS total" if asked.query == "GROUP BY" else ", COUNT(*) AS n"
    return [f"CREATE STREAM found AS SELECT {hop} AS began, k{values} FROM a GROUP BY k, {hop} EMIT ON WINDOW CLOSE"]


def in_milliseconds(table: pa.Table) -> pa.Table:
    """It takes the numbers of a TIMESTAMP for those."""
    return table.set_column(3, "ts", table["ts"].cast(pa.timestamp("ms")))


def noted(asked: Asked, tally: Tally, table: pa.Table) -> None:
    if asked.joins:
        tally.columns(*(table[f"i{number}"] for number in range(len(asked.streams))))
        return
    ends = table["began"].cast(pa.timestamp("s")).cast(pa.int64()).to_numpy() + asked.window_ms // 1_000
    tally.columns(ends, *(table[name] for name in (["k", "n", "total"] if asked.query == "GROUP BY" else ["k"])))


def run(asked: Asked, tally: Tally) -> float:
    with laminardb.open(":memory:") as db:
        columns = f"id BIGINT, k BIGINT, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{DELAY_S}' SECOND"
        for name in asked.streams:
            db.execute(f"CREATE SOURCE {name} ({columns})")
        made = streams_of(asked)
        for one in made:
            db.execute(one)
        db.start()
        found = db.subscribe_stream(made[-1].split()[2])
        tables = {name: in_milliseconds(pq.read_table(asked.file(name))) for name in asked.streams}
        rows, last = tables["a"].num_rows, time.perf_counter()

        def take(wait_ms: int) -> None:
            nonlocal last
            while True:
                try:
                    batch = found.next_timeout(wait_ms)
                except laminardb.SubscriptionError:
                    return
                if batch is None:
                    return
                noted(asked, tally, batch.arrow())
                last = time.perf_counter()

        for start in range(0, rows, BATCH):
            for name, table in tables.items():
                db.insert(name, table.slice(start, BATCH))
            take(1)
        for name, table in tables.items():
            later = pa.array([table["ts"][-1].value + 60_000], pa.int64()).cast(table.schema.field("ts").type)
            db.insert(name, pa.table({"id": [-1], "k": [-1 - ord(name)], "v": [-1], "ts": later}))
        take(QUIET_MS)
        return last


def main() -> None:
    asked = Asked(**json.loads(sys.argv[1]))
    if asked.query == "top 10":
        print(json.dumps({"cannot": NO_RANKS}), flush=True)
        return
    for _ in range(asked.runs):
        tally = Tally(asked)
        started, worked = time.perf_counter(), time.process_time()
        last = run(asked, tally)
        waited = time.perf_counter() - last
        tell(tally.rows, tally.checksum, last - started, time.process_time() - worked, waited)


if __name__ == "__main__":
    main()
