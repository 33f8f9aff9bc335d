"""DuckDB asked again at every step: the window's rows are read anew each time."""

from __future__ import annotations

import duckdb

from benchmarks.rivals.peers.protocol import Asked, Tally, answer


def joined(streams: str, window_ms: int) -> str:
    """Those that the rows since the last step complete."""
    width = window_ms * 1_000
    same = [f"{streams[0]}.k = {name}.k" for name in streams[1:]]
    near = [f"abs({x}.t - {y}.t) <= {width}" for i, x in enumerate(streams) for y in streams[i + 1 :]]
    read = ", ".join(f"(SELECT * FROM {name} WHERE t > $since - {width} AND t <= $until) {name}" for name in streams)
    ids = ", ".join(f"{name}.id" for name in streams)
    newest = f"greatest({', '.join(f'{name}.t' for name in streams)})"
    return f"SELECT {ids} FROM {read} WHERE {' AND '.join([*same, *near, f'{newest} > $since'])}"


def windowed(query: str) -> str:
    rows = "FROM a WHERE t > $since AND t <= $until"
    end = "$until // 1000000"
    if query == "GROUP BY":
        return f"SELECT {end}, k, count(*), sum(v)::BIGINT {rows} GROUP BY k"
    if query == "DISTINCT":
        return f"SELECT DISTINCT {end}, k {rows}"
    return f"SELECT {end}, id, v {rows} ORDER BY v DESC LIMIT 10"


def run(asked: Asked, tally: Tally) -> None:
    with duckdb.connect() as db:
        for name in asked.streams:
            db.execute(f"CREATE TABLE {name} AS SELECT id, k, v, epoch_us(ts) AS t FROM '{asked.file(name)}'")
        found = db.execute("SELECT max(t) FROM a").fetchone()
        assert found is not None
        slide, window = asked.slide_ms * 1_000, asked.window_ms * 1_000
        sql = joined(asked.streams, asked.window_ms) if asked.joins else windowed(asked.query)
        for until in range(slide, int(found[0]) + slide, slide):
            since = until - (slide if asked.joins else window)
            told = db.execute(sql, {"since": since, "until": until}).fetchnumpy()
            tally.columns(*told.values())


if __name__ == "__main__":
    answer(run)
